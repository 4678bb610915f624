// NVFP4 quantizer: x [rows, k] → codes [rows, blocks * 8] and scales, row-major or in the 128x4 swizzle. The arithmetic is in
// nvfp4_block.cuh; this file moves the data.
//
// A thread takes blocks of 16 numbers. A warp takes 8 rows of 4 blocks: two neighbouring rows in each quarter of a tile of
// 128 rows, whose swizzled scales are one whole 32-byte sector, as are the codes of each row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "nvfp4_block.cuh"

namespace nvfp4 {

constexpr int kWarps = 4;
constexpr int kTurns = 8;            // groups of 4 blocks that a warp takes, one after another
constexpr int kStep = kWarps * 4;    // blocks from one turn to the next
constexpr int kBlocksOfCta = kStep * kTurns;

struct Args {
  const void* x;
  uint8_t* codes;
  uint8_t* scales;
  const float* tensor_scale;
  int64_t stride;  // elements between rows of x
  int rows, k, swizzled;
};

template <typename T>
struct Word;  // how two numbers lie in 32 bits

template <>
struct Word<__nv_bfloat16> {
  static constexpr int kFreeBits = 24 - 8;
  static NVFP4_FN float low(uint32_t w) { return bits_to_float(w << 16); }
  static NVFP4_FN float high(uint32_t w) { return bits_to_float(w & 0xFFFF0000u); }
};

template <>
struct Word<__half> {
  static constexpr int kFreeBits = 24 - 11;
  static NVFP4_FN float low(uint32_t w) { return __low2float(reinterpret_cast<const __half2&>(w)); }
  static NVFP4_FN float high(uint32_t w) { return __high2float(reinterpret_cast<const __half2&>(w)); }
};

// The 16 numbers of a block as 8 words. kWhole: the block is complete and aligned; else one by one, zeros beyond k.
template <bool kWhole, typename T>
NVFP4_FN void load(uint32_t (&words)[8], const T* source, int left) {
  if (kWhole) {
    const uint4 a = __ldg(reinterpret_cast<const uint4*>(source)), b = __ldg(reinterpret_cast<const uint4*>(source) + 1);
    words[0] = a.x, words[1] = a.y, words[2] = a.z, words[3] = a.w;
    words[4] = b.x, words[5] = b.y, words[6] = b.z, words[7] = b.w;
  } else {
    const uint16_t* numbers = reinterpret_cast<const uint16_t*>(source);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const uint32_t low = 2 * i < left ? numbers[2 * i] : 0, high = 2 * i + 1 < left ? numbers[2 * i + 1] : 0;
      words[i] = low | high << 16;
    }
  }
}

NVFP4_FN void clear(uint32_t (&words)[8]) {
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i] = 0;
}

// The blocks of one thread.
template <typename T, Quotient kHow, bool kSwizzled, bool kWhole>
NVFP4_FN void quantize_blocks(const Args& p, float tensor_scale, int row, int first, int quarter) {
  const int blocks = (p.k + 15) / 16, padded_blocks = (blocks + 3) / 4 * 4;
  const bool row_inside = row < p.rows;
  const T* x = static_cast<const T*>(p.x) + row * p.stride + first * 16;
  uint8_t* codes = p.codes + (static_cast<int64_t>(row) * blocks + first) * 8;
  // The grid covers whole tiles of rows, so that the padding of swizzled scales is written, as zero.
  const int64_t tile = static_cast<int64_t>(blockIdx.y / 16) * (padded_blocks / 4) + first / 4;
  uint8_t* scales = p.scales + (kSwizzled ? tile * 512 + row % 32 * 16 + quarter * 4 + first % 4
                                          : static_cast<int64_t>(row) * blocks + first);
  float inverse = divide(1.0f, tensor_scale);
  asm volatile("" : "+f"(inverse));  // or the compiler moves the division into the loop

  uint32_t next[8] = {};
  if (row_inside && first < blocks) load<kWhole>(next, x, p.k - first * 16);
#pragma unroll 1
  for (int turn = 0; turn < kTurns && first < padded_blocks; ++turn) {
    float numbers[16];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      numbers[2 * i] = Word<T>::low(next[i]);
      numbers[2 * i + 1] = Word<T>::high(next[i]);
    }
    const bool inside = row_inside && first < blocks;
    first += kStep;
    x += kStep * 16;
    // The next block is on its way while this one is computed. Beyond the row or the last turn nothing is read.
    const bool more = row_inside && first < blocks && turn + 1 < kTurns;
    if (more) load<kWhole>(next, x, p.k - first * 16);
    if (!more) clear(next);
    const Block out = quantize<kHow>(numbers, tensor_scale, inverse);
    if (inside) *reinterpret_cast<uint2*>(codes) = make_uint2(out.codes[0], out.codes[1]);
    if (kSwizzled || inside) *scales = out.scale;
    codes += kStep * 8;
    scales += kSwizzled ? kStep / 4 * 512 : kStep;
  }
}

template <typename T, bool kAlwaysDivide, bool kSwizzled, bool kWhole>
__global__ void __launch_bounds__(kWarps * 32, 7) quantize_kernel(const Args p) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int quarter = lane / 8;
  const int row = blockIdx.y / 16 * 128 + blockIdx.y % 16 * 2 + lane / 4 % 2 + quarter * 32;
  const int first = blockIdx.x * kBlocksOfCta + warp * 4 + lane % 4;
  const float tensor_scale = __ldg(p.tensor_scale);
  if (kAlwaysDivide)
    quantize_blocks<T, kDivide, kSwizzled, kWhole>(p, tensor_scale, row, first, quarter);
  else if (__any_sync(0xFFFFFFFFu, risky(tensor_scale, lane, Word<T>::kFreeBits)))
    quantize_blocks<T, kRefine, kSwizzled, kWhole>(p, tensor_scale, row, first, quarter);
  else
    quantize_blocks<T, kMultiply, kSwizzled, kWhole>(p, tensor_scale, row, first, quarter);
}

template <typename T, bool kAlwaysDivide, bool kSwizzled>
void launch(const Args& p, cudaStream_t stream) {
  const int blocks = (p.k + 15) / 16;
  const dim3 grid((blocks + kBlocksOfCta - 1) / kBlocksOfCta, (p.rows + 127) / 128 * 16);
  if (reinterpret_cast<uintptr_t>(p.x) % 16 == 0 && p.stride % 8 == 0 && p.k % 16 == 0)
    quantize_kernel<T, kAlwaysDivide, kSwizzled, true><<<grid, kWarps * 32, 0, stream>>>(p);
  else
    quantize_kernel<T, kAlwaysDivide, kSwizzled, false><<<grid, kWarps * 32, 0, stream>>>(p);
}

template <typename T>
int launch(const Args& p, int divide, cudaStream_t stream) {
  if (divide)
    p.swizzled ? launch<T, true, true>(p, stream) : launch<T, true, false>(p, stream);
  else
    p.swizzled ? launch<T, false, true>(p, stream) : launch<T, false, false>(p, stream);
  return cudaGetLastError();
}

}  // namespace nvfp4

// On `stream`; `divide` takes true divisions, for extreme scales. Returns a cudaError_t.
extern "C" int nvfp4_quantize_bf16(const nvfp4::Args* p, int divide, cudaStream_t stream) {
  return nvfp4::launch<__nv_bfloat16>(*p, divide, stream);
}
extern "C" int nvfp4_quantize_fp16(const nvfp4::Args* p, int divide, cudaStream_t stream) {
  return nvfp4::launch<__half>(*p, divide, stream);
}
