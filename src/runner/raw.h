/* System calls that do not touch errno. A command's child shares the runner's memory until it execs, so errno belongs
 * to the runner, which keeps running. */
#ifndef CUBBY_RUNNER_RAW_H
#define CUBBY_RUNNER_RAW_H

#include <stddef.h>
#include <sys/syscall.h>

struct clone_args;

/* Returns the result or -errno. */
static inline long raw_syscall(long number, long a, long b, long c, long d, long e) {
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
    return x0;
#else
#error "raw_syscall is not written for this machine"
#endif
}
#define RAW5(n, a, b, c, d, e, ...) raw_syscall(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e))
#define raw(...) RAW5(__VA_ARGS__, 0, 0, 0, 0, 0)

/* clone3 with a stack of its own (args->stack): the child calls run(argument), which never returns. The parent gets the
 * child's pid or -errno. */
static inline long raw_clone3(struct clone_args *args, size_t size, void (*run)(void *), void *argument) {
#if defined(__x86_64__)
    long result;
    register void (*r12)(void *) __asm__("r12") = run;
    register void *r13 __asm__("r13") = argument;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "a"(SYS_clone3), "D"(args), "S"(size), "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = SYS_clone3;
    register long x0 __asm__("x0") = (long)args;
    register long x1 __asm__("x1") = (long)size;
    register void (*x19)(void *) __asm__("x19") = run;
    register void *x20 __asm__("x20") = argument;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x20\n\t"
                     "blr x19\n\t"
                     "brk 1\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x19), "r"(x20)
                     : "x30", "memory");
    return x0;
#endif
}

#endif
