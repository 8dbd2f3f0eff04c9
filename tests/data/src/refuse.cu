// How libraries refuse at run time what they were not built for: a message and a breakpoint.
#include <cstdio>

__global__ void refuses(float *x) {
  printf("not built for this architecture\n");
  __brkpt();
}

__global__ void refuses_in_assembler(float *x) {
  printf("not implemented\n");
  asm volatile("brkpt;");
}

// The work stands after the breakpoint, which nothing passes.
__global__ void refuses_before_work(float *x) {
  printf("not built for this architecture\n");
  __brkpt();
  x[threadIdx.x] *= 2.0f;
}

// A breakpoint on one path only: a check, not a refusal.
__global__ void checks(float *x, int n) {
  if (threadIdx.x > n) {
    printf("%d is too many\n", n);
    __brkpt();
  }
  x[threadIdx.x] += n;
}
