// __half and __nv_bfloat16 as CUDA has them, of which kernels convert from and to float only.
// Conversions round to nearest, ties to even; overflow gives infinity, NaN stays NaN.
#pragma once
#include <stdint.h>
#include <string.h>

struct __half { uint16_t bits; };
struct __nv_bfloat16 { uint16_t bits; };

namespace dlc {

inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace dlc

#if defined(__F16C__) && !defined(__clang__)
// One lane of VCVTPH2PS and VCVTPS2PH; 0 stands for "to nearest, ties to even".
typedef short dlc_8_halves __attribute__((vector_size(16)));
typedef float dlc_4_floats __attribute__((vector_size(16)));
inline float __half2float(__half value) {
  return __builtin_ia32_vcvtph2ps(dlc_8_halves{short(value.bits)})[0];
}
inline __half __float2half_rn(float value) {
  return {uint16_t(__builtin_ia32_vcvtps2ph(dlc_4_floats{value}, 0)[0])};
}
#elif defined(__aarch64__)
inline float __half2float(__half value) {
  __fp16 narrow;
  memcpy(&narrow, &value, sizeof narrow);
  return narrow;
}
inline __half __float2half_rn(float value) {
  const __fp16 narrow = value;
  __half half;
  memcpy(&half, &narrow, sizeof half);
  return half;
}
#else
#define DLC_SOFTWARE_HALF
#endif

namespace dlc {

// By integer arithmetic, for processors without instructions (and for the test of both).
inline float half_to_float(__half value) {
  const uint32_t sign = uint32_t(value.bits & 0x8000) << 16, rest = value.bits & 0x7fff;
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | rest << 13);  // infinity, NaN
  // Read as a float, the number is 2^112 times too small; a product with a power of 2 is exact.
  return float_of(sign | bits_of(float_of(rest << 13) * float_of((127u + 112) << 23)));
}

inline __half float_to_half(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return {uint16_t(sign | 0x7e00)};   // NaN
  if (rest >= 0x477ff000) return {uint16_t(sign | 0x7c00)};  // 65520 and above
  if (rest < 0x38800000)  // below 2^-14: adding 0.5, whose last place is 2^-24, rounds
    return {uint16_t(sign | (bits_of(float_of(rest) + 0.5f) - 0x3f000000))};
  return {uint16_t(sign | (rest - (112u << 23) + 0xfff + (rest >> 13 & 1)) >> 13)};
}

}  // namespace dlc

#ifdef DLC_SOFTWARE_HALF
inline float __half2float(__half value) { return dlc::half_to_float(value); }
inline __half __float2half_rn(float value) { return dlc::float_to_half(value); }
#endif

inline float __bfloat162float(__nv_bfloat16 value) {
  return dlc::float_of(uint32_t(value.bits) << 16);
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  const uint32_t bits = dlc::bits_of(value);
  if (value != value) return {uint16_t(bits >> 16 | 0x40)};  // quiet, whatever is cut off
  return {uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
