/* Needs the CUDA runtime of whichever major version it is linked to. */
int cudaGetDeviceCount(int *count);
int run(void) { int count = 0; return cudaGetDeviceCount(&count); }
