// Host side of the Hopper kernels: one C function per configuration, called with plain pointers.
#pragma once
#include "hopper_gemm.cuh"

namespace hopper {

// Mirrored field by field by `Launch` in build.py.
struct Launch {
  const void* x;  // [m, ldx] in the configuration's activation type
  const void* weights;
  const void* row_scale;
  const void* bias;
  const void* x_scale;
  void* out;
  void* partials;
  long long partial_bytes;
  int m, n, k, ldx, ldo, panels, chunks, ctas, out_fp16, pdl;
};

namespace {

typedef CUresult (*EncodeTiled)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                                const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                                CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

inline EncodeTiled encode_tiled() {
  static EncodeTiled found = [] {
    void* f = nullptr;
    cudaDriverEntryPointQueryResult status;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &f, 12000, cudaEnableDefault, &status) != cudaSuccess)
      f = nullptr;
    return reinterpret_cast<EncodeTiled>(f);
  }();
  return found;
}

// Returns 0, a CUDA runtime error, or -1: no driver entry point, -2: tensor map refused, -3: workspace too small,
// -4: K is not padded to this configuration's stage.
template <class C>
int launch(const Launch& l, cudaStream_t stream) {
  constexpr int kElement = C::ACT == kE4m3 ? 1 : 2;
  CUtensorMap map;
  if (!encode_tiled()) return -1;
  cuuint64_t size[2] = {(cuuint64_t)l.k, (cuuint64_t)l.m}, stride[1] = {(cuuint64_t)l.ldx * kElement};
  cuuint32_t box[2] = {(cuuint32_t)(128 / kElement), (cuuint32_t)C::TN}, step[2] = {1, 1};
  CUtensorMapDataType type = C::ACT == kE4m3   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                             : C::ACT == kFp16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                               : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (encode_tiled()(&map, type, 2, const_cast<void*>(l.x), size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
                     CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                     CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return -2;
  Params p;
  p.weights = static_cast<const uint8_t*>(l.weights);
  p.row_scale = static_cast<const float*>(l.row_scale);
  p.bias = static_cast<const float*>(l.bias);
  p.x_scale = static_cast<const float*>(l.x_scale);
  p.out = l.out;
  p.partials = static_cast<float*>(l.partials);
  p.m = l.m, p.n = l.n, p.ldo = l.ldo, p.panels = l.panels, p.chunks = l.chunks;
  if (l.chunks % C::CHUNKS != 0) return -4;
  p.steps = l.chunks / C::CHUNKS;
  p.m_tiles = (l.m + C::TN - 1) / C::TN;
  int tiles = p.m_tiles * ((l.panels + C::kPanels - 1) / C::kPanels);
  // Every CTA must get at least one step, or a tile would wait for the part of a CTA that has none.
  int ctas = (long long)tiles * p.steps < l.ctas ? tiles * p.steps : l.ctas;
  int waves = tiles / ctas;
  if (tiles % ctas != 0 && waves > 0) --waves;  // the last full wave joins the remainder, so shares stay large
  p.dp_waves = waves;
  p.sk_tiles = tiles - waves * ctas;
  p.out_fp16 = l.out_fp16, p.pdl = l.pdl;
  long long tile_bytes = (long long)C::kPanels * 64 * C::TN * 4;
  if (ctas * tile_bytes > l.partial_bytes) return -3;
  static cudaError_t raised = cudaFuncSetAttribute(gemm<C>, cudaFuncAttributeMaxDynamicSharedMemorySize, C::kSmem);
  if (raised != cudaSuccess) return raised;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(ctas), config.blockDim = dim3(C::kThreads);
  config.dynamicSmemBytes = C::kSmem, config.stream = stream;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute, config.numAttrs = l.pdl ? 1 : 0;
  return cudaLaunchKernelEx(&config, gemm<C>, map, p);
}

}  // namespace
}  // namespace hopper
