/* A library without device code. */
int answer(void) { return 42; }
