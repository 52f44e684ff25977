/* Maps the segments of an x86-64 or arm64 ELF file where they may be executed, without linking them, and waits for a
 * tracer. It says where they are, and where there is memory that every pointer in it points into. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCRATCH (1 << 20)

int main(int argc, char **argv)
{
	struct stat st;
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;

	if (file < 0 || fstat(file, &st))
		return 2;
	unsigned char *image = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	const Elf64_Ehdr *header = (const void *)image;
	const Elf64_Phdr *segments = (const void *)(image + header->e_phoff);
	uint64_t end = 0;

	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == PT_LOAD && segments[i].p_vaddr + segments[i].p_memsz > end)
			end = segments[i].p_vaddr + segments[i].p_memsz;
	unsigned char *base = mmap(NULL, end + 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uintptr_t *scratch = mmap(NULL, SCRATCH, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (image == MAP_FAILED || base == MAP_FAILED || scratch == MAP_FAILED)
		return 3;
	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == PT_LOAD)
			memcpy(base + segments[i].p_vaddr, image + segments[i].p_offset, segments[i].p_filesz);
	for (size_t i = 0; i < SCRATCH / sizeof *scratch; i++)
		scratch[i] = (uintptr_t)scratch + SCRATCH / 2;
	printf("%lu %lu", (unsigned long)(uintptr_t)base, (unsigned long)(uintptr_t)scratch);
	for (int i = 0; i < header->e_phnum; i++)
		if (segments[i].p_type == PT_LOAD)
			printf(" %lu:%lu:%lu", (unsigned long)segments[i].p_offset,
			       (unsigned long)segments[i].p_filesz, (unsigned long)segments[i].p_vaddr);
	puts("");
	fflush(stdout);
	ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	raise(SIGSTOP);
	return 0;
}
