// Each operator makes as many calls of a probed function as its first word tells: they are parts of the operator.
#include <stdlib.h>
__attribute__((noinline)) void part(int part) { __asm__ volatile("" ::"r"(part)); }
__attribute__((noinline)) void whole(int parts) {
    for (int i = 0; i < parts; i++)
        part(i);
    __asm__ volatile("");
}
__attribute__((noinline)) void step(int parts) {
    for (int i = 0; i < 5; i++)
        whole(parts);
    __asm__ volatile("");
}
int main(int count, char ** words) {
    (void) count;
    for (int i = 0; i < 50; i++)
        step(atoi(words[1]));
}
