// One NVFP4 block: 16 numbers and a tensor scale → 16 codes and a scale byte, with the bits of kernels.nvfp4.quantize.
// Compiled for the card by nvcc and for the CPU by the tests, which compare it with that reference.
//
// The E2M1 code of q is 4*s(q/2) + 2*s(q/2 - 1) + s(q/2 - 2) rounded to an integer, ties to even, where s clamps to [0, 1].
// At most one term is no integer, so adding them one after another onto 1.5 * 2^23 rounds exactly once.
//
// q = x / (block_scale * tensor_scale) is replaced by x * r with r = 1/d to within 2^-23, unless the tensor scale is risky:
// t * d, for a midpoint t between E2M1 numbers, lies within 2^-22 of a number that x can be. Midpoints have the mantissas 1,
// 1.25, 1.5 and 1.75 and block scales have eight, so 32 products tell, once for the tensor; about one tensor in 200 is risky
// in bfloat16. Then q0 = x*r, q = q0 + (x - q0*d)*r, which decides every rounding as the division does for x of 8 or 11
// bits (tests/kernels/test_quantize_division.py).
#pragma once

#include <stdint.h>

#ifdef __CUDACC__
#define NVFP4_FN __device__ __forceinline__
#else
#include <algorithm>
#include <cmath>
#include <cstring>
#define NVFP4_FN inline
#endif

namespace nvfp4 {

#ifdef __CUDACC__
NVFP4_FN float bits_to_float(uint32_t b) { return __uint_as_float(b); }
NVFP4_FN uint32_t float_to_bits(float f) { return __float_as_uint(f); }
NVFP4_FN float saturate(float f) { return __saturatef(f); }
NVFP4_FN float larger(float a, float b) { return fmaxf(a, b); }
NVFP4_FN float magnitude(float x) { return fabsf(x); }
NVFP4_FN float divide(float a, float b) { return __fdiv_rn(a, b); }
NVFP4_FN float multiply(float a, float b) { return __fmul_rn(a, b); }
NVFP4_FN float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
NVFP4_FN float approximate_inverse(float f) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(f));
  return r;
}
// Float to E4M3, nearest even, saturating; f is not negative.
NVFP4_FN uint32_t encode_e4m3(float f) {
  uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(f));
  return pair & 0xFFu;
}
#else
NVFP4_FN float bits_to_float(uint32_t b) { float f; std::memcpy(&f, &b, 4); return f; }
NVFP4_FN uint32_t float_to_bits(float f) { uint32_t b; std::memcpy(&b, &f, 4); return b; }
NVFP4_FN float larger(float a, float b) { return std::max(a, b); }
NVFP4_FN float magnitude(float x) { return std::fabs(x); }
NVFP4_FN float saturate(float f) { return f > 0 ? std::min(f, 1.0f) : 0.0f; }
NVFP4_FN float divide(float a, float b) { return a / b; }
NVFP4_FN float multiply(float a, float b) { return a * b; }
NVFP4_FN float fused(float a, float b, float c) { return std::fma(a, b, c); }
// As bad as the hardware's may be: 1 unit in the last place off.
NVFP4_FN float approximate_inverse(float f) { return std::nextafter(1.0f / f, (float_to_bits(f) & 1) ? 0.0f : 1e30f); }
NVFP4_FN uint32_t encode_e4m3(float f) {
  f = std::min(f, 448.0f);
  const float step = f < 0x1p-6f ? 0x1p-9f : std::exp2(std::floor(std::log2(f)) - 3.0f);
  const float n = std::nearbyint(f / step);  // 0 to 16, steps of the binade
  if (f < 0x1p-6f) return static_cast<uint32_t>(n);
  const int exponent = static_cast<int>(std::log2(step)) + 3 + 7;
  return static_cast<uint32_t>(exponent * 8 + static_cast<int>(n) - 8);
}
#endif

// E4M3 bits of a number that is not negative → float, exact.
NVFP4_FN float decode_e4m3(uint32_t bits) {
  // As the exponent and mantissa of a float this is 2^(7-127) times the value, subnormals included.
  return multiply(bits_to_float(bits << 20), 0x1p120f);
}

NVFP4_FN float divide_refined(float x, float d, float r) {
  const float q = multiply(x, r);
  return fused(fused(-q, d, x), r, q);
}

// Whether a combination of midpoint and block scale, of 32, makes this tensor scale risky. free_bits: mantissa bits of a
// float that are zero in every x.
NVFP4_FN bool risky(float tensor_scale, int combination, int free_bits) {
  const float d = multiply(tensor_scale, 1.0f + 0.125f * (combination % 8));
  const float product = multiply(d, 1.0f + 0.25f * (combination / 8));
  return ((float_to_bits(product) + 4) & ((1u << free_bits) - 1)) <= 8;
}

// Eight numbers → their codes, the first in the lowest 4 bits. half: half of the reciprocal that they are multiplied by.
NVFP4_FN uint32_t encode(const float* x, float half) {
  uint32_t codes = 0, offset = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    const float a = magnitude(x[i]);
    float v = fused(saturate(multiply(a, half)), 4.0f, 12582912.0f);
    v = fused(saturate(fused(a, half, -1.0f)), 2.0f, v);
    v += saturate(fused(a, half, -2.0f));
    codes = (codes << 1) | (float_to_bits(x[i]) >> 31);
    codes = codes * 8 + float_to_bits(v);  // the bits of 1.5 * 2^23 + code are 0x4B400000 + code
    offset = offset * 16 + 0x4B400000u;
  }
  return codes - offset;
}

struct Block {
  uint32_t codes[2];
  uint32_t scale;
};

NVFP4_FN float with_sign_of(float magnitude, float x) {
  return bits_to_float(float_to_bits(magnitude) | (float_to_bits(x) & 0x80000000u));
}

// How quotients are formed. kDivide is for float32 input and for extreme scales.
enum Quotient { kMultiply, kRefine, kDivide };

// inverse: 1 / tensor_scale rounded to nearest. x is overwritten.
template <Quotient kHow>
NVFP4_FN Block quantize(float (&x)[16], float tensor_scale, float inverse) {
  float amax = 0.0f;
#pragma unroll
  for (int i = 0; i < 16; ++i) amax = larger(amax, magnitude(x[i]));
  float wanted;
  if (kHow == kDivide) {
    wanted = divide(divide(amax, 6.0f), tensor_scale);
  } else {
    const float sixth = divide_refined(amax, 6.0f, 1.0f / 6.0f);
    const float near = divide_refined(sixth, tensor_scale, inverse);
    wanted = fused(fused(-near, tensor_scale, sixth), inverse, near);
  }
  Block out;
  out.scale = encode_e4m3(larger(wanted, 0x1p-9f));
  const float d = multiply(decode_e4m3(out.scale), tensor_scale);
  float half = 0.5f;
  if (kHow == kMultiply) {
    half = approximate_inverse(d + d);
  } else {
    const float r = divide(1.0f, d);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const float q = kHow == kDivide ? divide(magnitude(x[i]), d) : divide_refined(magnitude(x[i]), d, r);
      x[i] = with_sign_of(q, x[i]);
    }
  }
  out.codes[0] = encode(x, half);
  out.codes[1] = encode(x + 8, half);
  if (amax == 0.0f) out.scale = 0;
  return out;
}

}  // namespace nvfp4
