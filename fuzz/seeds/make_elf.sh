#!/usr/bin/env bash
# Makes fuzz/seeds/elf anew: small libraries that have what fuzz/bodies/elf.rs asks a file for. Needs gcc, g++, clang and lld.
set -euo pipefail
readonly folder="$(cd "$(dirname "$0")" && pwd)/elf"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir -p "$folder"

cat >classes.cpp <<'SOURCE'
struct Base { virtual ~Base(); virtual int prepare(int n) { return n; } virtual int run(int n) = 0; };
struct Other { virtual ~Other(); virtual int other() { return 1; } };
struct Add : Base { int run(int n) override; };
struct Mul : Base { int run(int n) override; };
struct Deep : Mul { int run(int n) override; };
struct Both : Other, Base { int run(int n) override; };
struct Shared : virtual Base { int run(int n) override; };
Base::~Base() {}
Other::~Other() {}
int Add::run(int n) { return n + 1; }
int Mul::run(int n) { return n * 3; }
int Deep::run(int n) { return n * 5; }
int Both::run(int n) { return n * 7; }
int Shared::run(int n) { return n * 11; }
void operator delete(void *, unsigned long) {}
SOURCE
cat >debug.c <<'SOURCE'
enum op { ADD, MATMUL = 29, NORM };
struct tensor { enum op op; char name[32]; long ne[4]; struct tensor *src[2]; unsigned flags : 3, rest : 29; };
struct params { int lane, lanes; };
volatile long sink;
static inline __attribute__((always_inline)) int run_inlined(struct params *params, struct tensor *tensor)
{
	sink += tensor->ne[1];
	return params->lane + (int)tensor->op;
}
__attribute__((noinline)) int run(struct params *params, struct tensor *tensor)
{
	return run_inlined(params, tensor) + tensor->flags;
}
int step(struct params params, struct tensor *tensors, int count)
{
	int sum = 0;
	for (int i = 0; i < count; i++)
		sum += run_inlined(&params, &tensors[i]) + run(&params, tensors[i].src[0]);
	return sum;
}
SOURCE
cat >static.c <<'SOURCE'
unsigned short toy_step_semaphore __attribute__((section(".probes"), used));
void begin(void)
{
	__asm__ volatile("990: nop\n"
		".pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
		"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n"
		".8byte toy_step_semaphore\n.asciz \"toy\"\n.asciz \"step\"\n.asciz \"" ARGUMENTS "\"\n"
		"994: .balign 4\n.popsection\n"
		".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n"
		".hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.popsection\n");
}
SOURCE
readonly -a small=(-shared -nostdlib -fPIC -fvisibility=hidden -fno-asynchronous-unwind-tables -Wl,-z,noseparate-code,-z,max-page-size=4096
    -Wl,--build-id=sha1)
g++ "${small[@]}" -O1 -s classes.cpp -o "$folder/classes.so"
gcc "${small[@]}" -O2 -gdwarf-5 debug.c -o "$folder/dwarf5.so"
gcc "${small[@]}" -O2 -gdwarf-4 -gz=zlib debug.c -o "$folder/dwarf4_compressed.so"
gcc "${small[@]}" -O1 -s "-DARGUMENTS=\"-4@8(%rdi) 8@%rsi -4@\$7 4@%edx 8@toy_step_semaphore(%rip)\"" static.c \
    -o "$folder/static_probes.so"
clang++ --target=aarch64-linux-gnu -fuse-ld=lld -shared -nostdlib -fPIC -fvisibility=hidden -O1 -Wl,-s,-z,undefs,--build-id=sha1 \
    -Wl,--pack-dyn-relocs=relr classes.cpp -o "$folder/arm64_classes.so"
clang --target=aarch64-linux-gnu -fuse-ld=lld -shared -nostdlib -fPIC -O2 -gdwarf-5 -Wl,--build-id=sha1 debug.c \
    -o "$folder/arm64_dwarf5.so"
