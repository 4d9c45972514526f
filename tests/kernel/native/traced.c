/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that tests trace. They have every kind of first instruction and call each other in every way. */
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default"), noinline, noclone))

struct extent {
	size_t width, height, depth;
};

struct pitched {
	void *pointer;
	size_t pitch, width, height;
};

EXPORT int plain(void)
{
	__asm__ volatile("");
	return 0;
}

#ifdef __x86_64__
/* The next functions begin like functions of libcuda: with push, with cmpl and je, and with endbr64. */
__asm__(".globl pushing, comparing, marked\n"
	".type pushing, @function\n.type comparing, @function\n.type marked, @function\n"
	"pushing: push %rbp; xor %eax, %eax; pop %rbp; ret\n"
	".size pushing, . - pushing\n"
	"comparing: cmpl $0x321cba00, zero(%rip); je 1f; xor %eax, %eax; ret\n"
	"1: mov $1, %eax; ret\n"
	".size comparing, . - comparing\n"
	"marked: endbr64; push %rbx; xor %eax, %eax; pop %rbx; ret\n"
	".size marked, . - marked\n"
	/* Tail-calls plain: two functions run in one frame, with the same stack pointer. */
	".globl jumping\n.type jumping, @function\n"
	"jumping: nop; jmp plain@PLT\n"
	".size jumping, . - jumping\n"
	".local zero\n.comm zero, 4\n");
#else
/*
 * The next functions begin like functions of libcudart, of libcuda and of a system built with branch protection:
 * with a push of the frame, with the address of a page and a comparison, and with a landing pad and a signed return
 * address.
 */
__asm__(".globl pushing, comparing, marked\n"
	".type pushing, @function\n.type comparing, @function\n.type marked, @function\n"
	"pushing: stp x29, x30, [sp, #-32]!; mov x29, sp; mov w0, #0; ldp x29, x30, [sp], #32; ret\n"
	".size pushing, . - pushing\n"
	"comparing: adrp x2, zero; mov w1, #0xba00; movk w1, #0x321c, lsl #16; ldr w2, [x2, #:lo12:zero]\n"
	"cmp w2, w1; b.eq 1f; mov w0, #0; ret\n"
	"1: mov w0, #1; ret\n"
	".size comparing, . - comparing\n"
	"marked: hint #34; hint #25; stp x29, x30, [sp, #-16]!; mov w0, #0; ldp x29, x30, [sp], #16; hint #29; ret\n"
	".size marked, . - marked\n"
	/* Tail-calls plain: two functions run in one frame, with the same stack pointer. */
	".globl jumping\n.type jumping, @function\n"
	"jumping: nop; b plain\n"
	".size jumping, . - jumping\n"
	".local zero\n.comm zero, 4, 4\n");
#endif

EXPORT int failing(int code)
{
	__asm__ volatile("");
	return code;
}

EXPORT int outer(int inner_calls)
{
	for (int i = 0; i < inner_calls; i++)
		plain();
	return 0;
}

EXPORT int recursive(int depth)
{
	int below = depth > 1 ? recursive(depth - 1) : 0;

	__asm__ volatile("" ::: "memory");
	return below;
}

/* Computes for `ns` by CLOCK_MONOTONIC. */
EXPORT int64_t waiting(int64_t ns)
{
	struct timespec start, now;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - start.tv_sec) * 1000000000LL + now.tv_nsec - start.tv_nsec < ns);
	return 0;
}

EXPORT int hanging(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1 ? plain() : 1;
}

EXPORT int leaving(jmp_buf *back)
{
	longjmp(*back, 1);
}

EXPORT int leaving_deeper(jmp_buf *back)
{
	leaving(back);
	return 0;
}

EXPORT int calling_back(void (*function)(void *), void *data)
{
	function(data);
	return 0;
}

/* Functions with sizes and directions in registers and on the stack. */
EXPORT int sized(void *a, uint64_t bytes)
{
	__asm__ volatile("" : : "r"(a), "r"(bytes));
	return a != NULL;
}

EXPORT int sized32(void *a, uint32_t count)
{
	__asm__ volatile("" : : "r"(a), "r"(count));
	return 0;
}

EXPORT int copying(void *a, const void *b, uint64_t bytes, int kind)
{
	__asm__ volatile("" : : "r"(a), "r"(b), "r"(bytes), "r"(kind));
	return 0;
}

EXPORT int copying_area(void *a, uint64_t a_pitch, const void *b, uint64_t b_pitch, uint64_t width,
			uint64_t height, int kind, uint64_t depth)
{
	__asm__ volatile("" : : "r"(a), "r"(b), "r"(width), "r"(height), "r"(kind), "r"(a_pitch), "r"(depth));
	return b_pitch != 0;
}

/* Take a struct by value, as cudaMalloc3D and cudaMemset3D take a cudaExtent; the ABI differs between machines. */
EXPORT int extending(void *a, struct extent extent)
{
	__asm__ volatile("" : : "r"(a), "r"(extent.width), "r"(extent.height), "r"(extent.depth));
	return 0;
}

EXPORT int filling(struct pitched place, int value, struct extent extent)
{
	__asm__ volatile("" : : "r"(place.pointer), "r"(value), "r"(extent.width));
	return 0;
}

EXPORT int copying_struct(const void *parameters)
{
	__asm__ volatile("" : : "r"(parameters));
	return 0;
}

EXPORT int collective(const void *a, void *b, uint64_t count, int type)
{
	__asm__ volatile("" : : "r"(a), "r"(b), "r"(count), "r"(type));
	return 0;
}
