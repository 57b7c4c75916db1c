// Context: a place to switch to and from, by hand on x86-64 and aarch64.
#pragma once
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__) || defined(__aarch64__)
// Pushes the callee-saved registers, stores the stack pointer, loads the other one, pops, returns.
extern "C" void dlc_switch(void** from, void* to) asm("dlc_switch");
#if defined(__x86_64__)  // System V ABI: rbx, rbp, r12-r15
asm(R"(
.text
.p2align 4
dlc_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
constexpr int kEntryWord = 6, kFrameWords = 8;
#else  // AAPCS64: x19-x30, d8-d15
asm(R"(
.text
.p2align 4
dlc_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
)");
constexpr int kEntryWord = 11, kFrameWords = 20;
#endif

struct Context {
  void* sp = nullptr;
  // A frame as dlc_switch leaves it, which "returns" into entry. `top` is 16-byte aligned.
  void make(char* top, size_t, void (*entry)()) {
    void** frame = reinterpret_cast<void**>(top) - kFrameWords;
    memset(frame, 0, kFrameWords * sizeof(void*));
    frame[kEntryWord] = reinterpret_cast<void*>(entry);
    sp = frame;
  }
  void to(Context& other) { dlc_switch(&sp, other.sp); }
};
#else  // any other CPU: correct, at the price of a system call per switch
#include <ucontext.h>
struct Context {
  ucontext_t state;
  void make(char* top, size_t size, void (*entry)()) {
    getcontext(&state);
    state.uc_stack.ss_sp = top - size;
    state.uc_stack.ss_size = size;
    state.uc_link = nullptr;
    makecontext(&state, entry, 0);
  }
  void to(Context& other) { swapcontext(&state, &other.state); }
};
#endif
