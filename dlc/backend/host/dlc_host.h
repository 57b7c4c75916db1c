// What a printed kernel needs in order to be C++ on the CPU: CUDA's words, its vector types, and
// the calls behind the prelude's host bodies. Included in front of the kernel's text by
// runtime.py. The other side of the calls is scheduler.cpp, one shared object for all kernels.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __shared__ static thread_local  // a block stays on one OS thread, which is its SM
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) __attribute__((aligned(n)))
#define alignas(n) __align__(n)  // g++ refuses the keyword after "static thread_local"

struct dim3 {
  unsigned x, y, z;
};

namespace dlc {

// Where the running thread stands. The scheduler rewrites it whenever it switches fibers.
struct Position {
  dim3 thread, block, block_size, grid_size;
  char* dynamic_shared;
  char* static_shared;  // an address among the shared variables of the kernel, of this OS thread
};

enum class Order : int { forward, reverse, random };
enum class Meeting : int {
  none, shuffle_xor, shuffle_down, shuffle_idx, syncwarp, mma, ldmatrix, stmatrix,
  wgmma, wgmma_fence, wgmma_commit, wgmma_wait, set_registers  // those of a warpgroup
};

// What a warp does together, given the 32 pointers that its lanes came with; of a warpgroup 128.
using Together = void (*)(void* const* lanes);

// The arguments of one launch; runtime.py mirrors this layout.
struct Launch {
  int64_t grid;          // blocks
  int32_t block;         // threads in a block, 1 to 1024
  int32_t shared_bytes;  // dynamic shared memory
  int32_t workers;       // OS threads
  Order order;           // in which order runnable threads run
  uint64_t seed;         // of Order::random
  int32_t early;         // asynchronous copies land at the issue, not at the wait
  int32_t cluster;       // blocks that run at the same time, each on an OS thread of its own, in turns
};

}  // namespace dlc

extern "C" {
extern __thread dlc::Position dlc_position;
[[noreturn]] void dlc_trap(const char* message);
void dlc_barrier(int line);
void dlc_barrier_among(int line, int threads);
void dlc_syncwarp();
void dlc_cluster_barrier();
const void* dlc_cluster_shared(const void* own, int block);
uint64_t dlc_shuffle(dlc::Meeting kind, uint64_t value, int argument, int width, unsigned named);
void dlc_together(dlc::Meeting kind, void* mine, dlc::Together act);
void dlc_wgmma(const void* mine, size_t bytes, dlc::Together act);
void dlc_wgmma_fence();
void dlc_wgmma_commit();
void dlc_wgmma_wait(int newest);
void dlc_set_max_registers(int before, int after);
unsigned dlc_window(uintptr_t number);
uintptr_t dlc_window_at(unsigned index);
void dlc_cp_async(void* dst, const void* src, int bytes, bool pred);
void dlc_cp_async_commit();
void dlc_cp_async_wait(int newest);
void dlc_mbarrier_init(void* barrier, unsigned count);
void dlc_mbarrier_arrive(void* barrier);
void dlc_mbarrier_arrive_at(void* barrier, int block);
void dlc_mbarrier_expect_tx(void* barrier, unsigned bytes);
void dlc_mbarrier_wait(void* barrier, unsigned parity);
void dlc_tma_load(void* dst, const void* map, void* barrier, const int* coordinates, int rank);
void dlc_tma_multicast(
    void* dst, const void* map, void* barrier, const int* coordinates, int rank, int blocks);
void dlc_tma_store(const void* src, const void* map, const int* coordinates, int rank);
void dlc_tma_commit();
void dlc_tma_wait(int newest, bool read);
}

// What no block exceeds is told to the compiler: where indices may wrap (-fwrapv), g++ 12 follows
// impossible ones to offsets from a thread_local that no linker takes.
static inline dim3 dlc_thread() {
  const dim3 thread = dlc_position.thread;
  if (thread.x >= 1024) __builtin_unreachable();
  return thread;
}

#define threadIdx dlc_thread()
#define blockIdx dlc_position.block
#define blockDim dlc_position.block_size
#define gridDim dlc_position.grid_size
#define __syncthreads() dlc_barrier(__LINE__)
#define __syncwarp() dlc_syncwarp()

// A vector may be read through any scalar pointer; CUDA's types, one line each.
#define DLC_VECTOR(T, name)                                                      \
  struct __attribute__((aligned(2 * sizeof(T)), may_alias)) name##2 { T x, y; }; \
  struct __attribute__((aligned(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16), may_alias)) name##4 { \
    T x, y, z, w;                                                                \
  };                                                                             \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }                     \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
DLC_VECTOR(float, float)
DLC_VECTOR(double, double)
DLC_VECTOR(int, int)
DLC_VECTOR(unsigned, uint)
DLC_VECTOR(short, short)
DLC_VECTOR(unsigned short, ushort)
DLC_VECTOR(signed char, char)
DLC_VECTOR(unsigned char, uchar)
DLC_VECTOR(long long, longlong)
#undef DLC_VECTOR

#include "half.h"

// CUDA's overloads of min and max; those of floats ignore a NaN, as fminf and fmaxf do.
#define DLC_MIN_MAX(T)                                   \
  inline T min(T a, T b) { return a < b ? a : b; }       \
  inline T max(T a, T b) { return a > b ? a : b; }
DLC_MIN_MAX(int)
DLC_MIN_MAX(unsigned)
DLC_MIN_MAX(long long)
DLC_MIN_MAX(unsigned long long)
#undef DLC_MIN_MAX
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

// Math functions that CUDA has and C does not.
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float rsqrt(float x) { return rsqrtf(x); }

namespace dlc {

inline void check_aligned(const volatile void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes)
    dlc_trap("a vector access at an address that is not a multiple of the vector's size");
}

template <class T>
inline T shuffle(Meeting kind, T value, int argument, int width, unsigned named = ~0u) {
  static_assert(sizeof(T) <= 8, "a shuffle moves at most 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof(T));
  bits = dlc_shuffle(kind, bits, argument, width, named);
  memcpy(&value, &bits, sizeof(T));
  return value;
}

// Blocks run on several OS threads, so this one is atomic on the host, too.
template <class T>
inline T atomic_add(T* address, T value) {
  T old, sum;
  __atomic_load(address, &old, __ATOMIC_RELAXED);
  do sum = old + value;
  while (!__atomic_compare_exchange(address, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

// Counts a block; true for the last of so many, after which the count is 0 again.
inline bool count_block(int* count, int blocks) {
  int before = __atomic_load_n(count, __ATOMIC_RELAXED), after;
  do {
    if (before < 0 || before >= blocks) dlc_trap("blocks are counted where there was no zero");
    after = before + 1 == blocks ? 0 : before + 1;
  } while (!__atomic_compare_exchange_n(count, &before, after, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED));
  return after == 0;
}

}  // namespace dlc

#include "warp_matrix.h"
#include "warpgroup_matrix.h"
