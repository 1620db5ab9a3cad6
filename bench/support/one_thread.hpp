// OpenMP's count of threads set to 1 while one lives, without OpenMP here: libdnnl brings the runtime, if there is one.
#pragma once

#include <dlfcn.h>

namespace sinter_bench {

class one_thread {
 public:
  one_thread() {
    auto const count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    set_ = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (count == nullptr || set_ == nullptr) return;
    before_ = count();
    set_(1);
  }
  one_thread(one_thread const&) = delete;
  one_thread& operator=(one_thread const&) = delete;
  ~one_thread() {
    if (before_ > 0) set_(before_);
  }

 private:
  void (*set_)(int) = nullptr;
  int before_ = 0;
};

}  // namespace sinter_bench
