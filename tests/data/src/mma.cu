// One kernel per instruction class that the architecture has, each with a known count.
typedef unsigned u32;

#define MMA(NAME, TYPE, CONSTRAINT, TEXT)                                                                    \
  __global__ void NAME(const u32 *a, TYPE *d) {                                                              \
    TYPE d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];                                                         \
    asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                               \
                 : "+" CONSTRAINT(d0), "+" CONSTRAINT(d1), "+" CONSTRAINT(d2), "+" CONSTRAINT(d3)            \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]));                        \
    d[0] = d0, d[1] = d1, d[2] = d2, d[3] = d3;                                                              \
  }

#if __CUDA_ARCH__ >= 800 || !defined(__CUDA_ARCH__)
MMA(hmma_f16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
MMA(hmma_bf16, float, "f", "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
MMA(imma_s8, int, "r", "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32")
#else
__global__ void hmma_f16(const u32 *a, float *d) {
  float d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a[0]), "r"(a[1]), "r"(a[2]));
  d[0] = d0, d[1] = d1, d[2] = d2, d[3] = d3;
}
__global__ void hmma_bf16(const u32 *a, float *d) {}
__global__ void imma_s8(const u32 *a, int *d) {
  int d0 = d[0], d1 = d[1];
  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
               : "+r"(d0), "+r"(d1) : "r"(a[0]), "r"(a[1]));
  d[0] = d0, d[1] = d1;
}
#endif

#if __CUDA_ARCH__ >= 890 && __CUDA_ARCH__ != 900 && __CUDA_ARCH__ < 1000 || __CUDA_ARCH__ >= 1200
#if !defined(__CUDA_ARCH_FEAT_SM90_ALL)
MMA(qmma_e4m3, float, "f", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32")
#endif
#endif

#if __CUDA_ARCH__ >= 890
__global__ void convert_fp8(const float *x, unsigned short *y, u32 *z) {
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y[0]) : "f"(x[0]), "f"(x[1]));
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y[1]) : "f"(x[2]), "f"(x[3]));
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(z[0]) : "h"(y[2]));
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(z[1]) : "h"(y[3]));
}
#endif

#ifdef BLOCK_SCALED
#define SCALED(NAME, TEXT)                                                                                   \
  __global__ void NAME(const u32 *a, float *d) {                                                             \
    float d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];                                                        \
    asm volatile(TEXT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3}, {%10}, {0,0}, {%11}, {0,0};"   \
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3)                                                    \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(a[4]), "r"(a[5]), "r"(a[6]), "r"(a[7]));  \
    d[0] = d0, d[1] = d1, d[2] = d2, d[3] = d3;                                                              \
  }
SCALED(nvfp4_scaled_mm, "mma.sync.aligned.kind::mxf4nvf4.block_scale.scale_vec::4X.m16n8k64.row.col.f32.e2m1.e2m1.f32.ue4m3")
SCALED(mxfp8_scaled_mm, "mma.sync.aligned.kind::mxf8f6f4.block_scale.scale_vec::1X.m16n8k32.row.col.f32.e4m3.e4m3.f32.ue8m0")
#endif

#if defined(BLOCK_SCALED) || defined(TENSOR_MEMORY)
__global__ void convert_fp4(const float *x, unsigned short *y, u32 *z) {
  asm("{.reg .b8 t; cvt.rn.satfinite.e2m1x2.f32 t, %1, %2; cvt.u16.u8 %0, t;}" : "=h"(y[0]) : "f"(x[0]), "f"(x[1]));
  asm("{.reg .b8 t; cvt.u8.u16 t, %1; cvt.rn.f16x2.e2m1x2 %0, t;}" : "=r"(z[0]) : "h"(y[2]));
}
#endif

#ifdef TENSOR_MEMORY
__global__ void tcgen05_f16(unsigned long long a, unsigned long long b, u32 d) {
  asm volatile("{.reg .pred p; setp.ne.b32 p, %3, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p;}"
               ::"r"(d), "l"(a), "l"(b), "r"(d));
}
#endif

#ifdef WARP_GROUP
__global__ void wgmma_f16(unsigned long long a, unsigned long long b, float *d) {
  float d0 = d[0], d1 = d[1], d2 = d[2], d3 = d[3];
  asm volatile("wgmma.fence.sync.aligned;");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "l"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;");
  d[0] = d0, d[1] = d1, d[2] = d2, d[3] = d3;
}
#endif
