// Bodies that were left out for another architecture, with a message in their place: nothing is computed, nothing ends.
#include <cstdio>

template <class Kernel>
__global__ void run(float *x, Kernel kernel) {
  kernel(x);
}

struct Guarded {
  __device__ void operator()(float *x) const {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    x[threadIdx.x] *= 2.0f;
#else
    printf("built for an architecture that lacks what this needs\n");
#endif
  }
};
template __global__ void run(float *, Guarded);

__global__ void prints_once(int n) {
  if (threadIdx.x == 0 && blockIdx.x == 0) printf("%d of %d\n", n, blockDim.x);
}

__global__ void prints_and_works(float *x) {
  printf("works\n");
  x[threadIdx.x] *= 2.0f;
}

__device__ __noinline__ void work(float *x) { x[threadIdx.x] *= 2.0f; }

__global__ void prints_and_calls(float *x) {
  printf("calls\n");
  work(x);
}

__global__ void adds_or_prints(float *x, int n) {
  if (n > 3)
    atomicAdd(x, 1.0f);
  else
    printf("too few\n");
}
