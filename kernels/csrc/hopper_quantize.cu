// Activations to E4M3 with one fp32 scale per token, in the column order that the E4M3 GEMM reads.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

namespace {

constexpr int kThreads = 512;

template <class T>
__device__ __forceinline__ float2 widen(uint32_t pair);
template <>
__device__ __forceinline__ float2 widen<__nv_bfloat16>(uint32_t pair) {
  return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
}
template <>
__device__ __forceinline__ float2 widen<__half>(uint32_t pair) {
  return __half22float2(*reinterpret_cast<__half2*>(&pair));
}

__device__ __forceinline__ uint32_t e4m3x2(float2 v, float inverse) {
  return __nv_cvt_float2_to_fp8x2(make_float2(v.x * inverse, v.y * inverse), __NV_SATFINITE, __NV_E4M3);
}

// One CTA per token. scale = amax / 448. Within each 64 columns the 4 x 4 groups of four are transposed: byte
// 16*q + 4*t + j holds column 16*t + 4*q + j, so that the A registers of one thread come from one block of weights.
template <class T>
__device__ __forceinline__ float largest(uint4 v) {
  float2 a = widen<T>(v.x), b = widen<T>(v.y), c = widen<T>(v.z), d = widen<T>(v.w);
  return fmaxf(fmaxf(fmaxf(fabsf(a.x), fabsf(a.y)), fmaxf(fabsf(b.x), fabsf(b.y))),
               fmaxf(fmaxf(fabsf(c.x), fabsf(c.y)), fmaxf(fabsf(d.x), fabsf(d.y))));
}

// KEPT: blocks of 16 columns that a thread keeps in registers between the two passes; 0: read the row twice.
template <class T, int KEPT>
__global__ void __launch_bounds__(kThreads)
    quantize(const T* x, uint8_t* codes, float* scales, int k, int ldx, int ldc) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const uint4* row = reinterpret_cast<const uint4*>(x + (long long)blockIdx.x * ldx);
  int blocks = k / 16, padded = (k + 63) / 64 * 4, threads = blockDim.x;
  const uint4 zero = make_uint4(0, 0, 0, 0);
  uint4 lo[KEPT ? KEPT : 1], hi[KEPT ? KEPT : 1];
  float amax = 0.f;
  if constexpr (KEPT > 0) {
#pragma unroll
    for (int j = 0; j < KEPT; ++j) {
      int i = threadIdx.x + j * threads;
      lo[j] = i < blocks ? row[2 * i] : zero, hi[j] = i < blocks ? row[2 * i + 1] : zero;
    }
#pragma unroll
    for (int j = 0; j < KEPT; ++j) amax = fmaxf(amax, fmaxf(largest<T>(lo[j]), largest<T>(hi[j])));
  } else {
    for (int i = threadIdx.x; i < 2 * blocks; i += threads) amax = fmaxf(amax, largest<T>(row[i]));
  }
  for (int o = 16; o; o /= 2) amax = fmaxf(amax, __shfl_xor_sync(~0u, amax, o));
  __shared__ float parts[kThreads / 32];
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = amax;
  __syncthreads();
  for (int i = 0; i < threads / 32; ++i) amax = fmaxf(amax, parts[i]);
  float scale = amax > 0.f ? amax / 448.f : 1.f, inverse = 1.f / scale;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  uint8_t* out = codes + (long long)blockIdx.x * ldc;
  auto write = [&](int i, uint4 a, uint4 b) {
    uint32_t* to = reinterpret_cast<uint32_t*>(out + i / 4 * 64) + i % 4;
    to[0] = e4m3x2(widen<T>(a.x), inverse) | e4m3x2(widen<T>(a.y), inverse) << 16;
    to[4] = e4m3x2(widen<T>(a.z), inverse) | e4m3x2(widen<T>(a.w), inverse) << 16;
    to[8] = e4m3x2(widen<T>(b.x), inverse) | e4m3x2(widen<T>(b.y), inverse) << 16;
    to[12] = e4m3x2(widen<T>(b.z), inverse) | e4m3x2(widen<T>(b.w), inverse) << 16;
  };
  if constexpr (KEPT > 0) {
#pragma unroll
    for (int j = 0; j < KEPT; ++j)
      if (threadIdx.x + j * threads < padded) write(threadIdx.x + j * threads, lo[j], hi[j]);
  } else {
    for (int i = threadIdx.x; i < padded; i += threads)
      write(i, i < blocks ? row[2 * i] : zero, i < blocks ? row[2 * i + 1] : zero);
  }
}

template <class T>
int start(cudaLaunchConfig_t& config, const void* x, void* codes, float* scales, int k, int ldx, int ldc) {
  int padded = (k + 63) / 64 * 4;
  config.blockDim = dim3(padded < kThreads ? (padded + 31) / 32 * 32 : kThreads);
  int kept = (padded + (int)config.blockDim.x - 1) / (int)config.blockDim.x;
  auto kernel = kept == 1 ? quantize<T, 1> : kept == 2 ? quantize<T, 2> : kept <= 4 ? quantize<T, 4> : quantize<T, 0>;
  return cudaLaunchKernelEx(&config, kernel, static_cast<const T*>(x), static_cast<uint8_t*>(codes), scales, k, ldx, ldc);
}

}  // namespace

// x: [m, ldx] bf16 (fp16 if `fp16`); codes: [m, ldc] bytes, ldc a multiple of 64 and at least k; scales: [m].
// k is a multiple of 16; columns up to the next multiple of 64 get zeros.
extern "C" int hopper_quantize(const void* x, void* codes, float* scales, int m, int k, int ldx, int ldc, int fp16, int pdl,
                               cudaStream_t stream) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(m), config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute, config.numAttrs = pdl ? 1 : 0;
  return fp16 ? start<__half>(config, x, codes, scales, k, ldx, ldc) : start<__nv_bfloat16>(config, x, codes, scales, k, ldx, ldc);
}
