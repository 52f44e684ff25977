/*
 * red_zone CALLS: a static probe that is a nop of 5 bytes, in a function that calls no other and keeps its data below
 * the stack pointer; and the same one in a function that makes room for it first. Status 1: a result was wrong.
 */
#include <stdio.h>
#include <stdlib.h>

#define NOTE(name)                                                                                                     \
	".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n991: .asciz \"stapsdt\"\n"     \
	"992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte 0\n.asciz \"red\"\n.asciz \"" name "\"\n.asciz \"8@%rdi\"\n"      \
	"994: .balign 4\n.popsection\n"

__asm__(".text\n"
	".globl leaf\n.type leaf, @function\nleaf:\n"
	"mov %rdi, -8(%rsp)\n"
	"990: .byte 0x0f, 0x1f, 0x44, 0, 0\n" NOTE("leaf")
	"mov -8(%rsp), %rax\n"
	"ret\n.size leaf, . - leaf\n"
	".globl other\n.type other, @function\nother:\n"
	"sub $8, %rsp\n"
	"mov %rdi, (%rsp)\n"
	"990: .byte 0x0f, 0x1f, 0x44, 0, 0\n" NOTE("other")
	"mov (%rsp), %rax\n"
	"add $8, %rsp\n"
	"ret\n.size other, . - other\n");

long leaf(long number);
long other(long number);

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 1000, wrong = 0;

	for (long i = 0; i < calls; i++)
		wrong += leaf(i) != i;
	for (long i = 0; i < calls; i++)
		wrong += other(i) != i;
	printf("%ld calls %ld wrong\n", calls, wrong);
	return wrong != 0;
}
