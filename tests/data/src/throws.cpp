// Needs the C++ library at two of its version lines.
#include <stdexcept>

extern "C" void check(int n) {
  if (n < 0) throw std::runtime_error("negative");
}
