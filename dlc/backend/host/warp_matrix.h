// What the lanes of a warp compute and move together of the matrices in their registers. Where an
// element of a lane belongs is said by the caller, as the PTX ISA lays fragments out.
#pragma once

namespace dlc {

struct Place {
  int row, column;
};
using Layout = Place (*)(int lane, int element);

struct tf32 {  // f32 of which the last 13 bits are not read
  uint32_t bits;
};

// An element of which a function of the prelude gives a float.
template <class T, float (*widen)(T)>
struct widened {
  T value;
};

template <class T, float (*widen)(T)>
inline float number(widened<T, widen> element) { return widen(element.value); }
inline float number(float value) { return value; }
inline int number(int value) { return value; }
inline int number(signed char value) { return value; }
inline int number(unsigned char value) { return value; }
inline float number(tf32 value) { return float_of(value.bits & 0xffffe000); }
inline float number(__half value) { return __half2float(value); }
inline float number(__nv_bfloat16 value) { return __bfloat162float(value); }
inline void round_to(float& to, float value) { to = value; }
inline void round_to(int& to, int value) { to = value; }
inline void round_to(__half& to, float value) { to = __float2half_rn(value); }

// What elements are multiplied and summed in: float, or int, which wraps.
template <class T>
using Wide = decltype(number(T()));
inline float multiply_add(float a, float b, float c) { return c + a * b; }
inline int multiply_add(int a, int b, int c) { return int(unsigned(c) + unsigned(a * b)); }

// D = C + A B of matrices of 16 x K and K x 8: T and U are the types of the elements of A and of B,
// S of the sums'. The products are exact, and are added to C in order.
template <class T, class U, class S, int K, class A, class B, class C>
inline C mma(const A& a, const B& b, const C& c, Layout at_a, Layout at_b, Layout at_c) {
  struct Lane {
    T a[sizeof(A) / sizeof(T)];
    U b[sizeof(B) / sizeof(U)];
    S c[sizeof(C) / sizeof(S)];
    Layout at_a, at_b, at_c;
  } mine;
  memcpy(mine.a, &a, sizeof(A)), memcpy(mine.b, &b, sizeof(B)), memcpy(mine.c, &c, sizeof(C));
  mine.at_a = at_a, mine.at_b = at_b, mine.at_c = at_c;
  dlc_together(Meeting::mma, &mine, [](void* const* lanes) {
    Wide<T> left[16][K] = {}, right[K][8] = {}, sum[16][8] = {};
    const auto each = [&](auto&& act) {
      for (int lane = 0; lane < 32; ++lane) act(lane, *static_cast<Lane*>(lanes[lane]));
    };
    const auto gather = [](const auto& elements, auto& matrix, Layout at, int lane) {
      int n = 0;
      for (const auto& element : elements) {
        const Place place = at(lane, n++);
        matrix[place.row][place.column] = number(element);
      }
    };
    each([&](int lane, Lane& of) {
      gather(of.a, left, of.at_a, lane);
      gather(of.b, right, of.at_b, lane);
      gather(of.c, sum, of.at_c, lane);
    });
    for (int m = 0; m < 16; ++m)
      for (int k = 0; k < K; ++k)
        for (int n = 0; n < 8; ++n) sum[m][n] = multiply_add(left[m][k], right[k][n], sum[m][n]);
    each([&](int lane, Lane& of) {
      int n = 0;
      for (S& element : of.c) {
        const Place place = of.at_c(lane, n++);
        round_to(element, sum[place.row][place.column]);
      }
    });
  });
  C d;
  memcpy(&d, mine.c, sizeof(C));
  return d;
}

// Rows of 8 16-bit elements that lanes point to; place (r, c) of the layout is in the row of lane
// r. They are moved to the registers V of each lane, or from there.
template <bool store, class V>
inline void matrix_rows(const void* row, V& registers, Layout at) {
  struct Lane {
    char* row;
    uint16_t units[sizeof(V) / 2];
    Layout at;
  } mine;
  mine.row = static_cast<char*>(const_cast<void*>(row)), mine.at = at;
  memcpy(mine.units, &registers, sizeof(V));
  dlc_together(store ? Meeting::stmatrix : Meeting::ldmatrix, &mine, [](void* const* lanes) {
    for (int lane = 0; lane < 32; ++lane) {
      Lane& of = *static_cast<Lane*>(lanes[lane]);
      int n = 0;
      for (uint16_t& unit : of.units) {
        const Place place = of.at(lane, n++);
        char* const begin = static_cast<Lane*>(lanes[place.row])->row;
        check_aligned(begin, 16);
        if (store) memcpy(begin + 2 * place.column, &unit, 2);
        else memcpy(&unit, begin + 2 * place.column, 2);
      }
    }
  });
  memcpy(&registers, mine.units, sizeof(V));
}

template <class V>
inline V ldmatrix(const void* row, Layout at) {
  V registers{};
  matrix_rows<false>(row, registers, at);
  return registers;
}

template <class V>
inline void stmatrix(void* row, V registers, Layout at) {
  matrix_rows<true>(row, registers, at);
}

}  // namespace dlc
