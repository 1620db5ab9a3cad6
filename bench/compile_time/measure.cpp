// measure RUNS COMMAND...: runs the command RUNS times and prints the median of its processor time (seconds, user and
// system, all its children) and the largest peak memory (megabytes) of any process in it.
//
// Processor time and not wall time, since other work on the machine stretches the latter without limit.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

double seconds(timeval const& t) {
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
}

}  // namespace

int main(int argc, char** argv) {
  int const runs = argc > 2 ? std::atoi(argv[1]) : 0;
  if (runs < 1) {
    std::fprintf(stderr, "usage: measure RUNS COMMAND...\n");
    return 2;
  }
  std::vector<double> times;
  long kilobytes = 0;
  for (int i = 0; i < runs; ++i) {
    pid_t const child = fork();
    if (child == 0) {
      execvp(argv[2], argv + 2);
      std::perror(argv[2]);
      _exit(127);
    }
    int status = 0;
    rusage used{};
    if (child < 0 || wait4(child, &status, 0, &used) < 0 || status != 0) return 1;
    times.push_back(seconds(used.ru_utime) + seconds(used.ru_stime));
    kilobytes = std::max(kilobytes, used.ru_maxrss);
  }
  std::sort(times.begin(), times.end());
  std::printf("%.2f %ld\n", times[times.size() / 2], kilobytes / 1000);
}
