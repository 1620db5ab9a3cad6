// A process in which memory cannot be made executable: by PR_SET_MDWE where the kernel has it, by a seccomp filter.
//
// run_child() runs one test case of this program in a process of its own, so that nothing was probed before; that case
// begins with forbid_code_as_asked(), from which there is no way back.
#pragma once

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace sinter_test {

inline constexpr char const* forbid_variable = "SINTER_TEST_FORBID";

inline bool forbid_by_mdwe() {
  constexpr int set_mdwe = 65, refuse_exec_gain = 1;  // linux/prctl.h from 6.3 on
  return prctl(set_mdwe, refuse_exec_gain, 0, 0, 0) == 0;
}

inline bool forbid_by_seccomp() {
  constexpr auto exec = static_cast<unsigned>(PROT_EXEC);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, exec, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{sizeof filter / sizeof filter[0], filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// What the parent asked for by run_child(). Ends the process with 77 where the kernel lacks the means.
inline void forbid_code_as_asked() {
  char const* const how = std::getenv(forbid_variable);
  bool const done =
      how != nullptr && (std::string(how) == "mdwe" ? forbid_by_mdwe() : forbid_by_seccomp());
  if (!done) std::_Exit(77);
}

/// The exit code of a process that runs the (skipped) test case of that name with a variable set.
inline int run_child(char const* variable, char const* value, std::string const& test_case) {
  pid_t const child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    execl("/proc/self/exe", "child", ("--test-case=" + test_case).c_str(), "--no-skip", nullptr);
    _exit(99);
  }
  int state = 0;
  waitpid(child, &state, 0);
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128;
}
/// The same where code is forbidden: `how` is "mdwe" or "seccomp".
inline int run_child(char const* how, std::string const& test_case) {
  return run_child(forbid_variable, how, test_case);
}

}  // namespace sinter_test
