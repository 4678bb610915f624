// NVFP4 GEMM for sm_120a (RTX Pro 6000 Blackwell and its kin): out[M, N] = x[M, K] * w[N, K]^T, both operands NVFP4.
//
// These cards have no tcgen05 and no tensor memory. The product is the warp-level block-scaled mma.sync, m16n8k64, with
// accumulators in registers. A persistent CTA of eight warps walks over 128 x 128 tiles of the result; four stages of
// 128 elements of K are filled by cp.async, and the copies run on across tiles, so that the pipeline is filled once.
// See sm120_layout.cuh for where everything lies.
//
// Needs: K a multiple of 32 (rows of codes are then whole 16-byte chunks), N a multiple of 8, scales in the 128x4
// swizzle with their padding zero, all pointers aligned to 16 bytes. Rows beyond M and N are read as zeros.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "sm120_layout.cuh"

namespace sm120 {

struct Args {
  const uint8_t* x;
  const uint8_t* x_scales;
  const float* x_tensor_scale;
  const uint8_t* w;
  const uint8_t* w_scales;
  const float* w_tensor_scale;
  void* out;
  int m, n, k;
  int ctas;
};

__device__ __forceinline__ uint32_t shared_address(const void* p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }

// Copy 16 bytes, or write 16 zero bytes when `inside` is false; the address must be valid even then.
__device__ __forceinline__ void copy_chunk(uint32_t to, const void* from, bool inside) {
  const int bytes = inside ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void load_matrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_16_bytes(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// c += (a * scale_a) * (b * scale_b) over 64 of K; four E4M3 scales in each scale word, lowest byte first.
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, uint32_t scale_a,
                                    uint32_t scale_b) {
  asm volatile(
      "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {0, 0}, {%11}, {0, 0};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(scale_a), "r"(scale_b));
}

template <typename Out>
__device__ __forceinline__ uint32_t pack_pair(float low, float high);

template <>
__device__ __forceinline__ uint32_t pack_pair<__nv_bfloat16>(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

template <>
__device__ __forceinline__ uint32_t pack_pair<__half>(float low, float high) {
  const __half2 pair = __floats2half2_rn(low, high);
  return reinterpret_cast<const uint32_t&>(pair);
}

// Walks over the steps of a CTA's tiles in order; knows the row and column of the tile it is in.
struct Cursor {
  int tile, step, row, column;

  __device__ __forceinline__ void enter(int number, int rows, int columns) {
    tile = number;
    step = 0;
    row = tile_row(number, rows, columns);
    column = tile_column(number, rows, columns);
  }
};

// Codes of 128 rows of one operand and one step. `rows` and `bytes_per_row` are the operand's own.
__device__ __forceinline__ void copy_codes(uint32_t to, const uint8_t* from, int first_row, int rows, int step,
                                           int bytes_per_row) {
#pragma unroll
  for (int i = 0; i < kTileM * kChunksPerRow / kThreads; ++i) {
    const int index = threadIdx.x + i * kThreads;
    const int row = index / kChunksPerRow, chunk = index % kChunksPerRow;
    const int byte = step * kRowBytes + chunk * kChunk;
    const bool inside = first_row + row < rows && byte < bytes_per_row;
    const uint8_t* source = from + (inside ? static_cast<int64_t>(first_row + row) * bytes_per_row + byte : 0);
    copy_chunk(to + code_offset(row, chunk), source, inside);
  }
}

// Scales of both operands of one step: threads 0-63 those of x, 64-127 those of w.
__device__ __forceinline__ void copy_scales(uint32_t to, const Args& p, int tile_m, int tile_n, int step, int scale_tiles) {
  if (threadIdx.x >= 2 * kScaleBytes / kChunk) return;
  const bool of_w = threadIdx.x >= kScaleBytes / kChunk;
  const int byte = (threadIdx.x % (kScaleBytes / kChunk)) * kChunk;
  const int k_tile = step * kScaleTiles + byte / kScaleTileBytes;
  const bool inside = k_tile < scale_tiles;
  const int64_t tile = static_cast<int64_t>(of_w ? tile_n : tile_m) * scale_tiles + k_tile;
  const uint8_t* base = of_w ? p.w_scales : p.x_scales;
  const uint8_t* source = base + (inside ? tile * kScaleTileBytes + byte % kScaleTileBytes : 0);
  copy_chunk(to + (of_w ? kScaleBytes : 0) + byte, source, inside);
}

template <typename Out>
__global__ void __launch_bounds__(kThreads, 1) gemm(const Args p) {
  extern __shared__ __align__(128) uint8_t shared[];
  const uint32_t stages = shared_address(shared);
  uint8_t* const staged = shared + kStages * kStageBytes;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  const int rows = (p.m + kTileM - 1) / kTileM, columns = (p.n + kTileN - 1) / kTileN;
  const int tiles = rows * columns;
  const int steps = (p.k + kTileK - 1) / kTileK;
  const int scale_tiles = (p.k + 63) / 64;
  const int stride = gridDim.x;
  const float alpha = *p.x_tensor_scale * *p.w_tensor_scale;

  // Start the copies of the next step, if there is one, and move on; always close a group, so that groups count steps.
  Cursor ahead;
  ahead.enter(blockIdx.x, rows, columns);
  auto fetch = [&](int stage) {
    if (ahead.tile < tiles) {
      const uint32_t to = stages + stage * kStageBytes;
      copy_codes(to, p.x, ahead.row * kTileM, p.m, ahead.step, p.k / 2);
      copy_codes(to + kCodeBytes, p.w, ahead.column * kTileN, p.n, ahead.step, p.k / 2);
      copy_scales(to + 2 * kCodeBytes, p, ahead.row, ahead.column, ahead.step, scale_tiles);
      if (++ahead.step == steps) ahead.enter(ahead.tile + stride, rows, columns);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

#pragma unroll
  for (int stage = 0; stage < kStages - 1; ++stage) fetch(stage);

  int stage = 0;
  for (int tile = blockIdx.x; tile < tiles; tile += stride) {
    float c[kMTiles][kNTiles][4] = {};
    for (int step = 0; step < steps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
      // All warps see this step's data, and all are done with the stage that the next fetch overwrites.
      __syncthreads();
      fetch((stage + kStages - 1) % kStages);

      const uint32_t codes_x = stages + stage * kStageBytes, codes_w = codes_x + kCodeBytes;
      const uint32_t scales_x = codes_w + kCodeBytes, scales_w = scales_x + kScaleBytes;
#pragma unroll
      for (int k64 = 0; k64 < kScaleTiles; ++k64) {
        uint32_t a[kMTiles][4], b[kNTiles / 2][4], scale_a[kMTiles], scale_b[kNTiles];
        load_16_bytes(scale_a, scales_x + k64 * kScaleTileBytes + a_scale_offset(warp, lane));
        load_16_bytes(scale_b, scales_w + k64 * kScaleTileBytes + b_scale_offset(warp, lane));
#pragma unroll
        for (int i = 0; i < kMTiles; ++i)
          load_matrices(a[i], codes_x + code_offset(a_row(warp, i, lane), a_chunk(k64, lane)));
#pragma unroll
        for (int j = 0; j < kNTiles / 2; ++j)
          load_matrices(b[j], codes_w + code_offset(b_row(warp, j, lane), b_chunk(k64, lane)));
#pragma unroll
        for (int i = 0; i < kMTiles; ++i)
#pragma unroll
          for (int j = 0; j < kNTiles; ++j)
            mma(c[i][j], a[i], b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1], scale_a[i], scale_b[j]);
      }
      stage = (stage + 1) % kStages;
    }

    // Epilogue, 64 rows at a time through shared memory, so that rows leave in 16-byte pieces.
    const int first_row = tile_row(tile, rows, columns) * kTileM, first_column = tile_column(tile, rows, columns) * kTileN;
#pragma unroll
    for (int half = 0; half < kTileM / kStageRows; ++half) {
      __syncthreads();  // the previous half has left
#pragma unroll
      for (int i = 2 * half; i < 2 * half + 2; ++i)
#pragma unroll
        for (int j = 0; j < kNTiles; ++j)
#pragma unroll
          for (int index = 0; index < 4; index += 2) {
            const int row = out_row(warp, i, lane, index) - half * kStageRows;
            const uint32_t pair = pack_pair<Out>(c[i][j][index] * alpha, c[i][j][index + 1] * alpha);
            *reinterpret_cast<uint32_t*>(staged + row * kOutRowBytes + out_column(warp, j, lane, index) * 2) = pair;
          }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kStageRows * kTileN / 8 / kThreads; ++i) {
        const int index = threadIdx.x + i * kThreads;
        const int row = index / (kTileN / 8), column = index % (kTileN / 8) * 8;
        const int64_t m = first_row + half * kStageRows + row, n = first_column + column;
        if (m < p.m && n < p.n)
          *reinterpret_cast<uint4*>(static_cast<Out*>(p.out) + m * p.n + n) =
              *reinterpret_cast<const uint4*>(staged + row * kOutRowBytes + column * 2);
      }
    }
  }
  asm volatile("cp.async.wait_all;" ::: "memory");
}

template <typename Out>
int launch(const Args& p, cudaStream_t stream) {
  const cudaError_t raised = cudaFuncSetAttribute(gemm<Out>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (raised != cudaSuccess) return raised;
  gemm<Out><<<p.ctas, kThreads, kSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace sm120

// Launch on `stream` with p.ctas CTAs. Returns a cudaError_t.
extern "C" int sm120_gemm_bf16(const sm120::Args* p, cudaStream_t stream) {
  return sm120::launch<__nv_bfloat16>(*p, stream);
}
extern "C" int sm120_gemm_fp16(const sm120::Args* p, cudaStream_t stream) { return sm120::launch<__half>(*p, stream); }
