// What the threads of a warpgroup compute of matrices in shared memory, which descriptors tell: all
// that is known of where an element lies is taken from a descriptor's bits.
#pragma once

namespace dlc {

// A descriptor has 18 bits of an address. The others of the host's stand as the number of a window
// in bits that the PTX ISA leaves unused, 52 to 61.
constexpr int kWindowBits = 18, kWindowAt = 52;

inline long long matrix_address(const void* start) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(start);
  const long long window = dlc_window(address >> kWindowBits);
  return (address & 0x3ffff) >> 4 | window << kWindowAt;
}

// One matrix in shared memory. `along` counts its rows, or columns of B; k points of K.
struct SharedMatrix {
  uintptr_t start;
  int leading, stride, mode;

  explicit SharedMatrix(long long bits) {
    const uint64_t word = uint64_t(bits);
    start = dlc_window_at(word >> kWindowAt & 0x3ff) << kWindowBits | (word & 0x3fff) << 4;
    leading = int(word >> 16 & 0x3fff) << 4;
    stride = int(word >> 32 & 0x3fff) << 4;
    mode = int(word >> 62);
    if (word >> 49 & 7) dlc_trap("a matrix descriptor with a base offset");
  }

  // The bytes of a row: of 16-byte units that stay together with no swizzle.
  int width() const { return mode == 0 ? 16 : 256 >> mode; }

  // The place of an element of so many bytes.
  const void* at(int along, int k, bool along_major, int bytes) const {
    const int inner = bytes * (along_major ? along : k), outer = along_major ? k : along;
    // Without a swizzle, 16 bytes along the row are `leading` apart where rows lie along K, and
    // `stride` apart where they do not.
    const int next = mode == 0 && along_major ? stride : leading;
    const int group = mode == 0 && along_major ? leading : stride;
    int place = outer % 8 * width() + outer / 8 * group;
    if (mode == 0 || along_major) place += inner % width() + inner / width() * next;
    else place += inner;
    uintptr_t address = start + place;
    if (mode != 0) address ^= (address >> 7 & (width() / 16 - 1)) << 4;
    return reinterpret_cast<const void*>(address);
  }
};

template <class T>
inline Wide<T> element(const SharedMatrix& of, int along, int k, bool along_major) {
  T value;
  memcpy(&value, of.at(along, k, along_major, sizeof value), sizeof value);
  return number(value);
}

// Adds A B, of B (K, N) where a descriptor says, to the sums of the threads of a warpgroup.
template <class T, int N, int K, bool n_major, class Thread>
inline void add_product(void* const* threads, const Wide<T> (&left)[64][K]) {
  const SharedMatrix b(static_cast<Thread*>(threads[0])->b);
  Wide<T> right[K][N], sum[64][N];
  for (int k = 0; k < K; ++k)
    for (int n = 0; n < N; ++n) right[k][n] = element<T>(b, n, k, n_major);
  const auto each = [&](auto&& act) {
    for (int t = 0; t < 128; ++t) {
      const Thread& of = *static_cast<Thread*>(threads[t]);
      for (int n = 0; n < N / 2; ++n) {
        const Place place = of.at(t, n);
        act(of.sums[n], sum[place.row][place.column]);
      }
    }
  };
  each([](auto& mine, auto& all) { all = mine; });
  for (int m = 0; m < 64; ++m)
    for (int k = 0; k < K; ++k)
      for (int n = 0; n < N; ++n) sum[m][n] = multiply_add(left[m][k], right[k][n], sum[m][n]);
  each([](auto& mine, auto& all) { mine = all; });
}

template <class Thread, class Same>
inline void check_same(void* const* threads, Same&& same) {
  for (int t = 1; t < 128; ++t)
    if (!same(*static_cast<Thread*>(threads[0]), *static_cast<Thread*>(threads[t])))
      dlc_trap("the threads of a warpgroup give wgmma different matrix descriptors");
}

// Requests C + A B for A (64, K) and B (K, N): T and U are the types of their elements.
template <class T, class U, int N, int K, bool m_major, bool n_major>
inline void wgmma(Wide<T>* sums, long long a, long long b, Layout at) {
  struct Thread {
    Wide<T>* sums;
    long long a, b;
    Layout at;
  } mine{sums, a, b, at};
  dlc_wgmma(&mine, sizeof mine, [](void* const* threads) {
    check_same<Thread>(threads, [](auto& x, auto& y) { return x.a == y.a && x.b == y.b; });
    const SharedMatrix a(static_cast<Thread*>(threads[0])->a);
    Wide<T> left[64][K];
    for (int m = 0; m < 64; ++m)
      for (int k = 0; k < K; ++k) left[m][k] = element<T>(a, m, k, m_major);
    add_product<U, N, K, n_major, Thread>(threads, left);
  });
}

// The same, of an A whose elements threads hold; they are read when the product is computed.
template <class T, int N, bool n_major>
inline void wgmma_held(float* sums, const T* a, long long b, Layout at, Layout at_a) {
  struct Thread {
    float* sums;
    const T* a;
    long long b;
    Layout at, at_a;
  } mine{sums, a, b, at, at_a};
  dlc_wgmma(&mine, sizeof mine, [](void* const* threads) {
    check_same<Thread>(threads, [](auto& x, auto& y) { return x.b == y.b; });
    float left[64][16];
    for (int t = 0; t < 128; ++t) {
      const Thread& of = *static_cast<Thread*>(threads[t]);
      for (int n = 0; n < 8; ++n) {
        const Place place = of.at_a(t, n);
        left[place.row][place.column] = number(of.a[n]);
      }
    }
    add_product<T, N, 16, n_major, Thread>(threads, left);
  });
}

}  // namespace dlc
