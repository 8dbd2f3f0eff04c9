/* pthread_create moved into libc.so.6 as GLIBC_2.34. */
#include <pthread.h>
static void *idle(void *unused) { return unused; }
int run(void) { pthread_t thread; return pthread_create(&thread, 0, idle, 0); }
