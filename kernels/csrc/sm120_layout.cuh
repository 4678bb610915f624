// Where everything lies in the NVFP4 GEMM for sm_120a. Plain integer functions, compiled for the device by nvcc and for
// the CPU by the tests, which run the kernel's data movement on these very functions.
//
// A tile of the result is 128 x 128 and one step takes 128 of K. Eight warps share it: warp w has m-part w % 2 and n-part
// w / 2. Scales arrive in the 128x4 swizzle, where one 16-byte word holds, for rows r, r+32, r+64 and r+96, the scales of
// four consecutive blocks. So that one 16-byte load serves four instructions, a warp's four m16 tiles lie 32 rows apart,
// and so do its four n8 tiles.
#pragma once

#ifdef __CUDACC__
#define SM120_FN __host__ __device__ __forceinline__ constexpr
#else
#define SM120_FN constexpr
#endif

namespace sm120 {

constexpr int kTileM = 128;
constexpr int kTileN = 128;
constexpr int kTileK = 128;                          // elements
constexpr int kRowBytes = kTileK / 2;                // bytes of one row of codes in a step
constexpr int kChunk = 16;                           // bytes of one asynchronous copy
constexpr int kChunksPerRow = kRowBytes / kChunk;    // 4
constexpr int kCodeBytes = kTileM * kRowBytes;       // codes of one operand in a stage
constexpr int kScaleTileBytes = 512;                 // 128 rows x 4 blocks
constexpr int kScaleTiles = kTileK / 64;             // scale tiles of one operand in a stage
constexpr int kScaleBytes = kScaleTiles * kScaleTileBytes;
constexpr int kStageBytes = 2 * (kCodeBytes + kScaleBytes);
constexpr int kStages = 4;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kMTiles = 4;                           // m16 tiles of a warp
constexpr int kNTiles = 4;                           // n8 tiles of a warp
constexpr int kStageRows = 64;                       // rows of the result that the epilogue stages at a time
constexpr int kOutRowBytes = kTileN * 2 + 16;        // 16 bytes more, so that rows start in different banks
constexpr int kOutBytes = kStageRows * kOutRowBytes;
constexpr int kSharedBytes = kStages * kStageBytes + kOutBytes;

// Byte offset of a 16-byte chunk of codes in shared memory. Two rows share 128 bytes; exchanging chunks by the row
// pair puts one chunk of eight consecutive rows into eight different bank groups.
SM120_FN int code_offset(int row, int chunk) { return row * kRowBytes + ((chunk ^ ((row >> 1) & 3)) * kChunk); }

// ldmatrix.x4: lane l gives the address of row l % 8 of matrix l / 8. For A the four matrices are rows 0-7 and 8-15 of
// an m16 tile at the lower 32 elements of K, then the same at the upper 32.
SM120_FN int a_row(int warp, int m_tile, int lane) { return (warp % 2) * 16 + m_tile * 32 + (lane & 15); }
SM120_FN int a_chunk(int k64, int lane) { return k64 * 2 + (lane >> 4); }

// For B they are the lower and the upper 32 elements of K of n8 tile 2p, then those of n8 tile 2p + 1.
SM120_FN int b_row(int warp, int pair, int lane) { return (warp / 2) * 8 + (2 * pair + (lane >> 4)) * 32 + (lane & 7); }
SM120_FN int b_chunk(int k64, int lane) { return k64 * 2 + ((lane >> 3) & 1); }

// Byte offset, within the scale tile of a k64, of the 16 bytes that hold this lane's scales for all four tiles. Of a quad,
// lanes 0 and 2 bring the scales of row lane / 4 of an m16 tile and lanes 1 and 3 those of row lane / 4 + 8; the
// instruction reads the first two. All four lanes bring the scales of column lane / 4 of an n8 tile; it reads the first.
SM120_FN int a_scale_offset(int warp, int lane) { return ((warp % 2) * 16 + (lane >> 2) + 8 * (lane & 1)) * 16; }
SM120_FN int b_scale_offset(int warp, int lane) { return ((warp / 2) * 8 + (lane >> 2)) * 16; }

// Row and column, in the tile of the result, of accumulator `index` (0 to 3) of a lane.
SM120_FN int out_row(int warp, int m_tile, int lane, int index) {
  return (warp % 2) * 16 + m_tile * 32 + (lane >> 2) + 8 * (index >> 1);
}
SM120_FN int out_column(int warp, int n_tile, int lane, int index) {
  return (warp / 2) * 8 + n_tile * 32 + 2 * (lane & 3) + (index & 1);
}

// The tile of the result with a running number: bands of kBand tile rows, column by column, so that tiles at work at the
// same time share operands in the L2 cache.
constexpr int kBand = 8;
SM120_FN int tile_row(int number, int rows, int columns) {
  const int band = number / (kBand * columns);
  const int height = rows - band * kBand < kBand ? rows - band * kBand : kBand;
  return band * kBand + (number - band * kBand * columns) % height;
}
SM120_FN int tile_column(int number, int rows, int columns) {
  const int band = number / (kBand * columns);
  const int height = rows - band * kBand < kBand ? rows - band * kBand : kBand;
  return (number - band * kBand * columns) / height;
}

}  // namespace sm120
