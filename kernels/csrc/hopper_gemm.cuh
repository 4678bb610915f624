// NVFP4 weight GEMM for Hopper (sm_90a): out[M, N] = x[M, K] . W[N, K]^T, W in E2M1 codes with an E4M3 scale per 16.
//
// The weights are the wide operand: a warpgroup owns 64 weight rows, decodes them into registers and feeds them to
// `wgmma` as A, while the activations, K-major in shared memory, are B. So every weight byte passes through registers
// once, no decoded tile is written back, and one kernel serves M = 1 (an 8-wide B) as well as M = 4096 (a 256-wide B).
//
// Packed weights, one 2304-byte block per (64-row panel p, 64-column chunk c), at block index p * chunks + c:
//   codes:  bytes [w*512 + lane*16 + i*4, +4), warp w of 4, lane = 4*g + t, k16-step i of 4: one 32-bit word with the
//           eight codes of the `wgmma` A fragment of that step: register j, half h is
//           row 16*w + g + 8*(j & 1), column 16*i + 2*t + 8*(j >> 1) + h.
//   scales: bytes [2048 + w*64 + g*8 + r*4 + i]: row 16*w + g + 8*r, k16-step i, as E5M3 with bias 22.
// Bits of the eight codes in a word, per 16-bit lane (lane h holds half h), as [sign, e1, e0, m] of registers 0 to 3:
//   bf16: [15,8,7,6] [12,5,4,3] [14,11,10,9] [13,2,1,0]      fp16: [15,11,10,9] [7,3,2,1] [8,14,13,12] [0,6,5,4]
// chosen so that nine logic operations turn a word into four packed pairs of value code * 2^-126 (bf16) or
// code * 2^-14 (fp16), both with the type's own subnormals. The scale byte becomes 2^119 or 2^7 times the scale by one
// shift and one mask, and one packed multiply gives code * scale * 2^-7, exactly: six significant bits.
//
// For e4m3 activations a thread holds whole blocks, so that it can build a table of a block's eight products and look
// codes up in it with byte permutes. Its word 2*r + h holds row 16*w + g + 8*r, columns 16*t + 8*h + 4*u + j (u of 2,
// j of 4): bits [4*(4*u + j), +3) the magnitude, bit 8*j + 7 - 4*u the sign. Bytes [2048 + w*64 + lane*2 + r] hold the
// scale of row 16*w + g + 8*r, block t. The activations' columns are permuted to match (hopper_quantize.cu).
#pragma once
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <stdint.h>

#include "wgmma_generated.cuh"

namespace hopper {
namespace {  // internal: two builds may be loaded into one process

enum Act { kBf16 = 0, kFp16 = 1, kE4m3 = 2 };

constexpr int kBlockBytes = 2304;  // one 64 x 64 block of packed weights
constexpr int kCodeBytes = 2048;
constexpr int kEpilogueTokens = 64;  // tokens transposed at a time through shared memory

struct Params {
  const uint8_t* weights;   // packed blocks
  const float* row_scale;   // [N padded to 64]
  const float* bias;        // [N padded to 64] or null
  const float* x_scale;     // [M], kE4m3 only
  void* out;                // [M, ldo] bf16 or fp16
  float* partials;          // stream-K parts of tiles, fp32, in fragment order, one per CTA; idle: kUnwritten
  int m, n, ldo;
  int panels;               // ceil(N / 64)
  int chunks;               // K padded, in 64-column chunks
  int steps;                // pipeline stages' worth of K: chunks / chunks-per-stage
  int m_tiles;
  int sk_tiles;             // tiles 0 .. sk_tiles-1 are cut evenly over all CTAs along K
  int dp_waves;             // then each CTA takes this many whole tiles
  int out_fp16;
  int pdl;                  // launched so that it may start before the kernel ahead of it has ended
};

__device__ __forceinline__ uint32_t smem_u32(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void mbar_init(uint32_t bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void mbar_expect(uint32_t bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void mbar_arrive(uint32_t bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void mbar_wait(uint32_t bar, uint32_t parity) {
  asm volatile(
      "{\n.reg .pred p;\nWAIT:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
      "@p bra DONE;\nbra WAIT;\nDONE:\n}"
      ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void bulk_load(uint32_t dst, const void* src, uint32_t bytes, uint32_t bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(dst),
               "l"(src), "r"(bytes), "r"(bar) : "memory");
}
__device__ __forceinline__ void tma_load(uint32_t dst, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
               ::"r"(dst), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
__device__ __forceinline__ bool elect_one() {
  uint32_t elected;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
  return elected != 0;
}
__device__ __forceinline__ void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void grid_launch() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
__device__ __forceinline__ void group_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
__device__ __forceinline__ uint4 lds128(uint32_t a) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(a));
  return v;
}
__device__ __forceinline__ uint2 lds64(uint32_t a) {
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(a));
  return v;
}

__device__ __forceinline__ uint32_t lds16(uint32_t a) {
  uint16_t v;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(a));
  return v;
}

// Descriptor of a K-major B tile with 128-byte rows and the 128-byte swizzle (eight-row groups 1024 bytes apart), and
// of a place `offset` bytes along it: shared addresses stay under 2^18, so the sum never leaves the address field.
__device__ __forceinline__ uint32_t b_descriptor(uint32_t addr) { return (addr >> 4) | (1u << 16); }
__device__ __forceinline__ uint64_t b_at(uint32_t descriptor, int offset) {
  return (uint64_t)0x40000040u << 32 | (descriptor + (offset >> 4));
}
// mask ? a : b, bit by bit, and (a & mask) | c, each as the one instruction that it is.
__device__ __forceinline__ uint32_t select(uint32_t mask, uint32_t a, uint32_t b) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xCA;" : "=r"(r) : "r"(mask), "r"(a), "r"(b));
  return r;
}
__device__ __forceinline__ uint32_t and_or(uint32_t a, uint32_t mask, uint32_t c) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(r) : "r"(a), "r"(mask), "r"(c));
  return r;
}

template <int ACT>
struct Scales {
  uint32_t even, odd;  // k16-steps (0, 2) and (1, 3) of one row, as packed halves
  __device__ __forceinline__ explicit Scales(uint32_t word) {
    if constexpr (ACT == kBf16) {
      even = and_or(word << 4, 0x0FF00FF0u, 0x70007000u);
      odd = and_or(word >> 4, 0x0FF00FF0u, 0x70007000u);
    } else {
      even = (word << 7) & 0x7F807F80u;
      odd = (word >> 1) & 0x7F807F80u;
    }
  }
};

template <int ACT, int STEP>
__device__ __forceinline__ uint32_t scaled(uint32_t pair, const Scales<ACT>& s) {
  uint32_t both = (STEP & 1) ? s.odd : s.even;
  if constexpr (ACT == kBf16) {
    __nv_bfloat162 v = *reinterpret_cast<__nv_bfloat162*>(&both);
    __nv_bfloat162 d = (STEP & 2) ? __high2bfloat162(v) : __low2bfloat162(v);
    __nv_bfloat162 r = __hmul2(*reinterpret_cast<__nv_bfloat162*>(&pair), d);
    return *reinterpret_cast<uint32_t*>(&r);
  } else {
    __half2 v = *reinterpret_cast<__half2*>(&both);
    __half2 d = (STEP & 2) ? __high2half2(v) : __low2half2(v);
    __half2 r = __hmul2(*reinterpret_cast<__half2*>(&pair), d);
    return *reinterpret_cast<uint32_t*>(&r);
  }
}

// One word to the four A registers of its k16-step, scaled.
template <int ACT, int STEP>
__device__ __forceinline__ void decode(uint32_t w, const Scales<ACT>& lo, const Scales<ACT>& hi, uint32_t (&a)[4]) {
  if constexpr (ACT == kBf16) {
    constexpr uint32_t kMask = 0x81C081C0u, kSign = 0x800E800Eu;
    uint32_t u = select(kSign, w << 1, w >> 3);
    a[0] = scaled<ACT, STEP>(w & kMask, lo);
    a[1] = scaled<ACT, STEP>((w << 3) & kMask, hi);
    a[2] = scaled<ACT, STEP>(u & kMask, lo);
    a[3] = scaled<ACT, STEP>((u << 5) & kMask, hi);
  } else {
    constexpr uint32_t kMask = 0x8E008E00u, kSign = 0x80808080u;
    uint32_t u = select(kSign, w << 7, w >> 3);
    a[0] = scaled<ACT, STEP>(w & kMask, lo);
    a[1] = scaled<ACT, STEP>((w << 8) & kMask, hi);
    a[2] = scaled<ACT, STEP>(u & kMask, lo);
    a[3] = scaled<ACT, STEP>((u << 8) & kMask, hi);
  }
}

// The eight products of one block scale with the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6 as E4M3 bytes. `byte` is the
// scale in E4M3; `five` says that 1.5 times it, rounded, lies five steps above it and not four; a binade is eight steps.
struct Products {
  uint32_t lo, hi;
  __device__ __forceinline__ Products(uint32_t byte, bool five) {
    lo = byte * 0x01010100u + ((five ? 0x05000000u : 0x04000000u) - 0x00000800u);
    hi = byte * 0x01010101u + (five ? 0x15100D08u : 0x14100C08u);
  }
  // Four codes by their magnitudes in the low nibbles of `m`, and their signs at the top of the bytes of `w`.
  __device__ __forceinline__ uint32_t look_up(uint32_t m, uint32_t w) const {
    return __byte_perm(lo, hi, m) | (w & 0x80808080u);
  }
};

template <int N>
struct Tag {
  static constexpr int value = N;
};

struct Segment {
  int tile, k0, k1;
};

// The work of one CTA, the same list for its producer and its consumers: first its even share of the stream-K tiles,
// counted in steps and taken from the back, then whole tiles. Of a tile that several CTAs share, the one with the last
// part owns the result and adds the others' parts. It waits only for CTAs of lower index, which started before it and
// do their parts before they wait for anybody: no CTA is kept waiting by one that has not started.
struct Schedule {
  long long begin, end;
  int dp, steps, sk_tiles, dp_waves;
  __device__ __forceinline__ explicit Schedule(const Params& p) {
    long long total = (long long)p.sk_tiles * p.steps;
    begin = total * blockIdx.x / gridDim.x;
    end = total * (blockIdx.x + 1) / gridDim.x;
    dp = 0;
    steps = p.steps, sk_tiles = p.sk_tiles, dp_waves = p.dp_waves;
  }
  __device__ __forceinline__ int total() const { return (int)(end - begin) + dp_waves * steps; }
  __device__ __forceinline__ bool next(Segment& s) {
    if (begin < end) {
      s.tile = (int)((end - 1) / steps);
      long long base = (long long)s.tile * steps;
      s.k0 = begin > base ? (int)(begin - base) : 0;
      s.k1 = (int)(end - base);
      end = base + s.k0;
      return true;
    }
    if (dp == dp_waves) return false;
    s.tile = sk_tiles + dp * gridDim.x + blockIdx.x;
    s.k0 = 0, s.k1 = steps;
    ++dp;
    return true;
  }
};

// The CTA whose stream-K share holds step u of `total`.
__device__ __forceinline__ int owner(long long u, long long total) {
  return (int)(((u + 1) * gridDim.x - 1) / total);
}

template <int ACT_, int GROUPS_, int M64_, int TN_, int CHUNKS_, int STAGES_, int RESIDENT_, int BATCH_>
struct Config {
  static constexpr int ACT = ACT_, GROUPS = GROUPS_, M64 = M64_, TN = TN_, CHUNKS = CHUNKS_, STAGES = STAGES_;
  static constexpr int RESIDENT = RESIDENT_;  // CTAs that must fit on a multiprocessor at once
  static constexpr int kPanels = GROUPS * M64;  // 64-row panels of a tile
  // Wide accumulators need more than an equal share of registers: then the producer is a whole warpgroup, so that
  // `setmaxnreg` can move its share to the others. (Registers are split over four schedulers: a lone ninth warp would
  // cost each thread as much as twelve warps do.)
  static constexpr bool kWide = M64 * TN >= 192 || GROUPS * M64 * TN >= 512;
  static constexpr int kBatch = BATCH_;  // `wgmma` steps to a commit group: 1, 2 or 4
  static constexpr int kThreads = GROUPS * 128 + (kWide ? 128 : 32);
  static constexpr int kProducerRegisters = GROUPS == 2 ? 40 : 32;
  static constexpr int kConsumerRegisters = GROUPS == 2 ? 232 : GROUPS == 3 ? 160 : 112;
  static constexpr int kXBoxes = ACT == kE4m3 ? CHUNKS / 2 : CHUNKS;  // 128-byte-wide boxes of activations per stage
  static constexpr int kXBox = TN * 128;
  static constexpr int kXStage = kXBoxes * kXBox;
  static constexpr int kWPanel = CHUNKS * kBlockBytes;
  static constexpr int kWStage = kPanels * kWPanel;
  static constexpr int kEpilogue = GROUPS * 128 * (TN < kEpilogueTokens ? TN : kEpilogueTokens);
  static constexpr int kSmem = STAGES * (kXStage + kWStage) + kEpilogue + 2 * STAGES * 8;
  static_assert(ACT != kE4m3 || CHUNKS % 2 == 0, "an e4m3 box is two chunks wide");
};

// Run by one whole warp, of which one lane issues the copies: so addresses stay in uniform registers.
template <class C>
__device__ __forceinline__ void produce(const Params& p, const CUtensorMap* map, uint32_t x_smem, uint32_t w_smem,
                                        uint32_t full, uint32_t empty) {
  constexpr uint32_t kBytes = C::kXStage + C::kWStage;
  const bool elected = elect_one();
  const long long panel_bytes = (long long)p.chunks * kBlockBytes;
  auto load_w = [&](int stage, const uint8_t* (&from)[C::kPanels], int k) {
    if (elected) {
      mbar_expect(full + 8 * stage, kBytes);
#pragma unroll
      for (int i = 0; i < C::kPanels; ++i)
        bulk_load(w_smem + stage * C::kWStage + i * C::kWPanel, from[i] + k * C::kWPanel, C::kWPanel, full + 8 * stage);
    }
  };
  auto panels = [&](int n_tile, const uint8_t* (&from)[C::kPanels]) {
#pragma unroll
    for (int i = 0; i < C::kPanels; ++i)  // past the edge: any valid rows, never stored
      from[i] = p.weights + min(n_tile * C::kPanels + i, p.panels - 1) * panel_bytes;
  };
  Segment s;
  const uint8_t* from[C::kPanels];
  // Weights never depend on the kernel before this one: fill the pipeline with them, then wait for it.
  Schedule ahead(p);
  int filled = 0;
#pragma unroll 1
  while (filled < C::STAGES && ahead.next(s)) {
    panels(s.tile / p.m_tiles, from);
#pragma unroll 1
    for (int k = s.k0; k < s.k1 && filled < C::STAGES; ++k, ++filled) load_w(filled, from, k);
  }
  Schedule plan(p);
  // The kernel after this one may start its own filling when one pipeline's worth is left to load: earlier it competes
  // for memory with this one, later it leaves memory idle.
  int stage = 0, parity = 1, it = 0, trigger = plan.total() - C::STAGES;
  if (p.pdl && trigger <= 0) grid_launch();
  grid_wait();
#pragma unroll 1
  while (plan.next(s)) {
    int n_tile = s.tile / p.m_tiles, m0 = (s.tile - n_tile * p.m_tiles) * C::TN;
    panels(n_tile, from);
#pragma unroll 1
    for (int k = s.k0; k < s.k1; ++k, ++it) {
      if (it >= C::STAGES) {
        mbar_wait(empty + 8 * stage, parity);
        load_w(stage, from, k);
      }
      if (elected) {
#pragma unroll
        for (int i = 0; i < C::kXBoxes; ++i)
          tma_load(x_smem + stage * C::kXStage + i * C::kXBox, map, (k * C::kXBoxes + i) * (C::ACT == kE4m3 ? 128 : 64),
                   m0, full + 8 * stage);
      }
      __syncwarp();
      if (p.pdl && it + 1 == trigger) grid_launch();
      if (++stage == C::STAGES) stage = 0, parity ^= 1;
    }
  }
}

// Row factors and biases of the two rows that a thread holds in each 64-row tile.
template <class C>
struct Rows {
  float scale[C::M64][2], bias[C::M64][2];
  __device__ __forceinline__ Rows(const Params& p, const Segment& s, int group, int tid) {
#pragma unroll
    for (int mt = 0; mt < C::M64; ++mt) {
      int panel = min((s.tile / p.m_tiles) * C::kPanels + group * C::M64 + mt, p.panels - 1);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        int row = panel * 64 + tid / 32 * 16 + tid % 32 / 4 + 8 * r;
        scale[mt][r] = __ldg(p.row_scale + row);
        bias[mt][r] = p.bias ? __ldg(p.bias + row) : 0.f;
      }
    }
  }
};

template <class C>
__device__ __forceinline__ void store_tile(const Params& p, float (&acc)[C::M64][C::TN / 2], const Rows<C>& rows,
                                           const Segment& s, int group, int tid, uint32_t buffer) {
  constexpr int kTokens = C::TN < kEpilogueTokens ? C::TN : kEpilogueTokens;
  int warp = tid / 32, lane = tid % 32, t = lane % 4;
  int m0 = (s.tile % p.m_tiles) * C::TN;
  bool half = C::ACT == kFp16 || (C::ACT == kE4m3 && p.out_fp16);
#pragma unroll
  for (int mt = 0; mt < C::M64; ++mt) {
    int panel = (s.tile / p.m_tiles) * C::kPanels + group * C::M64 + mt;
    if (panel >= p.panels) break;
    float scale0 = rows.scale[mt][0], scale1 = rows.scale[mt][1], bias0 = rows.bias[mt][0], bias1 = rows.bias[mt][1];
#pragma unroll
    for (int c = 0; c < (C::TN + kTokens - 1) / kTokens; ++c) {
      if (m0 + c * kTokens >= p.m) break;
      group_sync(1 + group);  // the buffer's last reads are done
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        if (c * kTokens + j * 8 >= C::TN) break;
        float* d = &acc[mt][(c * (kTokens / 8) + j) * 4];
        float xs0 = 1.f, xs1 = 1.f;
        if constexpr (C::ACT == kE4m3) {
          int m = m0 + c * kTokens + j * 8 + t * 2;
          xs0 = m < p.m ? __ldg(p.x_scale + m) : 0.f;
          xs1 = m + 1 < p.m ? __ldg(p.x_scale + m + 1) : 0.f;
        }
        float v0 = fmaf(d[0], scale0 * xs0, bias0), v1 = fmaf(d[1], scale0 * xs1, bias0);
        float v2 = fmaf(d[2], scale1 * xs0, bias1), v3 = fmaf(d[3], scale1 * xs1, bias1);
        uint32_t r0, r1;
        if (half) {
          __half2 a = __floats2half2_rn(v0, v1), b = __floats2half2_rn(v2, v3);
          r0 = *reinterpret_cast<uint32_t*>(&a), r1 = *reinterpret_cast<uint32_t*>(&b);
        } else {
          __nv_bfloat162 a = __floats2bfloat162_rn(v0, v1), b = __floats2bfloat162_rn(v2, v3);
          r0 = *reinterpret_cast<uint32_t*>(&a), r1 = *reinterpret_cast<uint32_t*>(&b);
        }
        // Two 8 x 8 matrices (rows g and g + 8) stored transposed: shared row = token, 16-byte unit = 8 weight rows.
        int token = j * 8 + (lane & 7), unit = warp * 2 + ((lane >> 3) & 1);
        uint32_t addr = buffer + token * 128 + ((unit ^ (token & 7)) << 4);
        asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(addr), "r"(r0), "r"(r1)
                     : "memory");
      }
      group_sync(1 + group);
      for (int i = tid; i < kTokens * 8; i += 128) {
        int token = i / 8, unit = i % 8, m = m0 + c * kTokens + token, n = panel * 64 + unit * 8;
        uint4 v = lds128(buffer + token * 128 + ((unit ^ (token & 7)) << 4));
        if (m < p.m && n < p.n && c * kTokens + token < C::TN)
          *reinterpret_cast<uint4*>(reinterpret_cast<uint16_t*>(p.out) + (long long)m * p.ldo + n) = v;
      }
    }
  }
}

// A word of the workspace that no part has been written to. No arithmetic yields this NaN.
constexpr uint32_t kUnwritten = 0xFFFFFFFFu;

__device__ __forceinline__ void store_part(float4* to, const float4& v) {
  asm volatile("st.relaxed.gpu.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
               : "memory");
}
__device__ __forceinline__ uint4 load_part(const float4* from) {
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from) : "memory");
  return v;
}
__device__ __forceinline__ bool written(const uint4& v) {
  return v.x != kUnwritten && v.y != kUnwritten && v.z != kUnwritten && v.w != kUnwritten;
}

// A tile whose K was shared by several CTAs: all but the last leave their parts in the workspace, and the last adds
// them to its own in K order, so that the sum has one order. Each word is its own flag: a thread waits until the words
// that its counterpart writes differ from `kUnwritten` and then puts that value back for the next launch. So a part
// costs one trip to L2 and no fence.
template <class C>
__device__ __forceinline__ float4* part(const Params& p, int cta, int group, int tid) {
  constexpr int kVectors = C::M64 * C::TN / 8;  // float4 per thread
  return reinterpret_cast<float4*>(p.partials) + ((long long)cta * C::GROUPS + group) * kVectors * 128 + tid;
}

template <class C>
__device__ __forceinline__ void leave_part(const Params& p, float (&acc)[C::M64][C::TN / 2], int group, int tid) {
  float4* to = part<C>(p, blockIdx.x, group, tid);
#pragma unroll
  for (int i = 0; i < C::M64 * C::TN / 8; ++i) store_part(to + i * 128, reinterpret_cast<float4*>(&acc[0][0])[i]);
}

template <class C>
__device__ __forceinline__ void add_parts(const Params& p, float (&acc)[C::M64][C::TN / 2], const Segment& s, int group,
                                          int tid) {
  constexpr int kVectors = C::M64 * C::TN / 8;
  float4* sums = reinterpret_cast<float4*>(&acc[0][0]);
  int first = owner((long long)s.tile * p.steps, (long long)p.sk_tiles * p.steps), count = blockIdx.x - first;
  constexpr int kFlight = C::RESIDENT == 1 && C::GROUPS == 2 ? 16 : 8;       // loads at once, as registers allow:
  constexpr int kBatch = kVectors >= kFlight ? 1 : kFlight / kVectors;  // so many parts
  constexpr int kSlice = kVectors >= kFlight ? kFlight : kVectors;      // and so many vectors of each
  const float4 unwritten = make_float4(__uint_as_float(kUnwritten), __uint_as_float(kUnwritten),
                                       __uint_as_float(kUnwritten), __uint_as_float(kUnwritten));
  for (int i = 0; i < count; i += kBatch) {
#pragma unroll
    for (int slice = 0; slice < kVectors; slice += kSlice) {
      uint4 v[kBatch][kSlice];
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
#pragma unroll
        for (int j = 0; j < kSlice; ++j)
          v[b][j] = i + b < count && slice + j < kVectors
                        ? load_part(part<C>(p, first + i + b, group, tid) + (slice + j) * 128)
                        : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
#pragma unroll
        for (int j = 0; j < kSlice; ++j) {
          if (slice + j >= kVectors) break;
          if (i + b < count) {
            float4* from = part<C>(p, first + i + b, group, tid) + (slice + j) * 128;
            while (!written(v[b][j])) v[b][j] = load_part(from);
            store_part(from, unwritten);
          }
          float4& sum = sums[slice + j];
          sum.x += __uint_as_float(v[b][j].x), sum.y += __uint_as_float(v[b][j].y);
          sum.z += __uint_as_float(v[b][j].z), sum.w += __uint_as_float(v[b][j].w);
        }
    }
  }
}

// Packed weights of one chunk, as one thread reads them.
template <class C>
struct Chunk {
  uint4 word[C::M64];
  uint2 scale[C::M64];
  __device__ __forceinline__ void load(uint32_t codes, uint32_t scales) {
#pragma unroll
    for (int mt = 0; mt < C::M64; ++mt) {
      word[mt] = lds128(codes + mt * C::kWPanel);
      if constexpr (C::ACT == kE4m3)
        scale[mt].x = lds16(scales + mt * C::kWPanel);
      else
        scale[mt] = lds64(scales + mt * C::kWPanel);
    }
  }
};

// The A registers of one `wgmma` step: a k16-step, or a k32-step in E4M3.
template <class C, int STEP>
__device__ __forceinline__ void decode_step(const Chunk<C>& chunk, int mt, uint32_t (&a)[4]) {
  const uint4& w = chunk.word[mt];
  if constexpr (C::ACT == kE4m3) {
    uint32_t scale = chunk.scale[mt].x;
    Products upper(scale & 0x7F, scale & 0x80), lower((scale >> 8) & 0x7F, scale & 0x8000);
    uint32_t u = STEP ? w.y : w.x, l = STEP ? w.w : w.z;
    uint32_t um = u & 0x77777777u, lm = l & 0x77777777u;
    a[0] = upper.look_up(um, u), a[2] = upper.look_up(um >> 16, u << 4);
    a[1] = lower.look_up(lm, l), a[3] = lower.look_up(lm >> 16, l << 4);
  } else {
    Scales<C::ACT> lo(chunk.scale[mt].x), hi(chunk.scale[mt].y);
    decode<C::ACT, STEP>(STEP == 0 ? w.x : STEP == 1 ? w.y : STEP == 2 ? w.z : w.w, lo, hi, a);
  }
}

template <class C>
__device__ __forceinline__ void consume(const Params& p, int group, int tid, uint32_t x_smem, uint32_t w_smem,
                                        uint32_t full, uint32_t empty, uint32_t buffer) {
  using Mma = Wgmma<C::ACT, C::TN>;
  constexpr int kSteps = C::ACT == kE4m3 ? 2 : 4;  // of a chunk
  int warp = tid / 32, lane = tid % 32;
  uint32_t codes = w_smem + group * C::M64 * C::kWPanel + warp * 512 + lane * 16;
  uint32_t scales = w_smem + group * C::M64 * C::kWPanel + kCodeBytes + warp * 64 +
                    (C::ACT == kE4m3 ? lane * 2 : (lane / 4) * 8);
  float acc[C::M64][C::TN / 2];
  // A `wgmma` that takes A from registers holds up its warp until the one before it is under way. So a wide one is
  // issued alone and the next step is decoded under it; narrow ones go in batches, which saves barriers.
  constexpr int kBatch = C::kBatch < kSteps ? C::kBatch : kSteps;
  uint32_t a[8][C::M64][4];
  grid_wait();
  Schedule plan(p);
  Segment s;
  int stage = 0, parity = 0;
  while (plan.next(s)) {
    if (lane == 0) {  // needed after the last step, and cold
      int row = ((s.tile / p.m_tiles) * C::kPanels + group * C::M64) * 64 + warp * 16;
      if (row < p.panels * 64) {
        asm volatile("prefetch.global.L2 [%0];" ::"l"(p.row_scale + row));
        if (p.bias) asm volatile("prefetch.global.L2 [%0];" ::"l"(p.bias + row));
      }
    }
#pragma unroll
    for (int mt = 0; mt < C::M64; ++mt)
#pragma unroll
      for (int i = 0; i < C::TN / 2; ++i) acc[mt][i] = 0.f;
    Chunk<C> chunk, ahead;
    mbar_wait(full + 8 * stage, parity);
    chunk.load(codes + stage * C::kWStage, scales + stage * C::kWStage);
    int previous = -1;
    for (int k = s.k0; k < s.k1; ++k) {
      uint32_t x0 = __shfl_sync(~0u, b_descriptor(x_smem + stage * C::kXStage), 0);
      int next = stage + 1 == C::STAGES ? 0 : stage + 1;
      int next_parity = next ? parity : parity ^ 1;
#pragma unroll
      for (int c = 0; c < C::CHUNKS; ++c) {
        auto prefetch = [&] {
          if (c + 1 < C::CHUNKS) {
            uint32_t at = stage * C::kWStage + (c + 1) * kBlockBytes;
            ahead.load(codes + at, scales + at);
          } else if (k + 1 < s.k1) {
            mbar_wait(full + 8 * next, next_parity);
            ahead.load(codes + next * C::kWStage, scales + next * C::kWStage);
          }
        };
        auto release = [&] {
          if (c == 0 && previous >= 0 && lane == 0) mbar_arrive(empty + 8 * previous);
        };
        auto multiply = [&](int step) {
          int set = (c & 1) * kSteps + step;
          int offset = C::ACT == kE4m3 ? (c / 2) * C::kXBox + ((c & 1) * 2 + step) * 32 : c * C::kXBox + step * 32;
#pragma unroll
          for (int mt = 0; mt < C::M64; ++mt) Mma::run(acc[mt], a[set][mt], b_at(x0, offset));
        };
        auto unpack = [&](auto tag) {
          constexpr int kStep = decltype(tag)::value;
          if constexpr (kStep < kSteps) {
#pragma unroll
            for (int mt = 0; mt < C::M64; ++mt) decode_step<C, kStep>(chunk, mt, a[(c & 1) * kSteps + kStep][mt]);
          }
        };
        auto batch = [&](auto tag) {
          constexpr int kFirst = decltype(tag)::value;
          if constexpr (kFirst < kSteps && kFirst % kBatch == 0) {
            if (kFirst == kSteps / 2) prefetch();
            unpack(Tag<kFirst>{});
            if constexpr (kBatch > 1) unpack(Tag<kFirst + 1>{});
            if constexpr (kBatch > 2) unpack(Tag<kFirst + 2>{}), unpack(Tag<kFirst + 3>{});
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < kBatch; ++i) multiply(kFirst + i);
            wgmma_commit(), wgmma_wait<1>();
            if (kFirst == 0) release();  // only this batch may run, and it is of this stage
            if (kBatch == kSteps) prefetch();
          }
        };
        batch(Tag<0>{}), batch(Tag<1>{}), batch(Tag<2>{}), batch(Tag<3>{});
        chunk = ahead;
      }
      previous = stage;
      stage = next, parity = next_parity;
    }
    wgmma_wait<0>();
    if (lane == 0) mbar_arrive(empty + 8 * previous);
    if (s.k1 == p.steps) {
      Rows<C> rows(p, s, group, tid);  // asked for before the wait for the others' parts
      if (s.k0 > 0) add_parts<C>(p, acc, s, group, tid);
      store_tile<C>(p, acc, rows, s, group, tid, buffer);
    } else {
      leave_part<C>(p, acc, group, tid);
    }
  }
}

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::RESIDENT)
    gemm(const __grid_constant__ CUtensorMap map, const __grid_constant__ Params p) {
  extern __shared__ __align__(1024) uint8_t raw[];  // the swizzle counts from multiples of 1024
  uint32_t base = smem_u32(raw);
  uint32_t x_smem = base, w_smem = base + C::STAGES * C::kXStage;
  uint32_t buffer = w_smem + C::STAGES * C::kWStage;
  uint32_t full = buffer + C::kEpilogue, empty = full + 8 * C::STAGES;
  int warp = __shfl_sync(~0u, threadIdx.x / 32, 0);  // one value in all lanes, as the compiler then knows
  if (threadIdx.x == 0) {
    for (int i = 0; i < C::STAGES; ++i) {
      mbar_init(full + 8 * i, 1);
      mbar_init(empty + 8 * i, C::GROUPS * 4);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp >= C::GROUPS * 4) {
    if constexpr (C::kWide) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(C::kProducerRegisters));
    if (warp == C::GROUPS * 4) {
      asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
      produce<C>(p, &map, x_smem, w_smem, full, empty);
    }
  } else {
    if constexpr (C::kWide) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(C::kConsumerRegisters));
    int group = warp / 4;
    constexpr int kBuffer = C::kEpilogue / C::GROUPS;
    consume<C>(p, group, threadIdx.x % 128, x_smem, w_smem, full, empty, buffer + group * kBuffer);
  }
}

}  // namespace
}  // namespace hopper
