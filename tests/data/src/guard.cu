// Bodies guarded by an exact architecture, and what becomes of them elsewhere.
#include <cstdio>

__global__ void guarded_trap(float *x) {
#if __CUDA_ARCH__ == 1200
  x[threadIdx.x] *= 2.0f;
#else
  asm volatile("trap;");
#endif
}

__global__ void guarded_printf_trap(float *x) {
#if __CUDA_ARCH__ == 1200
  x[threadIdx.x] *= 2.0f;
#else
  printf("built for another architecture\n");
  asm volatile("trap;");
#endif
}

__global__ void guarded_empty(float *x) {
#if __CUDA_ARCH__ == 1200
  x[threadIdx.x] *= 2.0f;
#endif
}

// A trap on one path only: a check, not a refusal.
__global__ void checked(float *x, int n) {
  if (threadIdx.x > n) asm volatile("trap;");
  x[threadIdx.x] += n;
}

// Both paths trap, with a branch and two calls in front.
__global__ void both_paths_trap(int n) {
  if (n > 3) {
    printf("more\n");
    asm volatile("trap;");
  } else {
    printf("less %d\n", n);
    asm volatile("trap;");
  }
}
