// Options in every combination, sensible or not: a program that computes what plain loops do, or one sentence.
#include "executors.hpp"
#include "helpers.hpp"

using namespace run_test;

namespace {

struct odd {
  sinter::options o;
  bool moves = false;  ///< rows are known at the call only

  std::string text() const {
    return sinter::detail::join(
        {"backend '", o.backend, "', ", o.numerics == sinter::numerics::strict ? "strict" : "peer",
         ", max_isa ", o.max_isa ? sinter::name_of(*o.max_isa) : "none", o.tune ? ", tune" : "",
         ", threads ", o.threads, o.executor != nullptr ? " with" : " without", " executor",
         ", in place '", o.in_place, "', strip_rows ", o.strip_rows, ", policies ",
         static_cast<int>(o.on_fallback), static_cast<int>(o.on_split), moves ? ", moving" : ""});
  }
};

/// relu(x w + b) + r over whole numbers, r before the call in the output where the options say so.
void check_product(odd const& c, bool& built) {
  constexpr extent m = 7, k = 5, n = 9;
  auto made = try_compile({"matmul(x, w) | add b:vector | relu | add r:tensor"},
                          {dims("x", {c.moves ? sinter::dynamic : m, k}), dims("w", {k, n})}, c.o);
  built = made.ok();
  if (!made) return check_sentence(made.error().message, {});
  std::vector<float> x(m * k), w(k * n), b(n), r(m * n);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 5) - 2;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 3);
  for (std::size_t i = 0; i < r.size(); ++i) r[i] = static_cast<float>(i % 11) - 5;
  std::vector<float> wanted;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) {
      float sum = b[j];
      for (std::size_t l = 0; l < k; ++l) sum += x[i * k + l] * w[l * n + j];
      wanted.push_back((sum > 0 ? sum : 0) + r[i * n + j]);
    }
  guarded out(m * n);
  bool const shared = c.o.in_place == "r";
  if (shared) std::copy(r.begin(), r.end(), out.data());
  sinter::packed const weights = pack(*made, "w", sinter::view(w.data(), {k, n}));
  call_lists const lists{{{"x", sinter::view(x.data(), {m, k})},
                          {"b", sinter::as_view(b)},
                          {"r", sinter::view(shared ? out.data() : r.data(), {m, n})}},
                         {&weights},
                         {{"out", sinter::view(out.data(), {m, n})}}};
  sinter::status const st = lists.run(*made);
  CHECK_MESSAGE(st.ok(), st.error().message);
  CHECK(std::vector<float>(out.data(), out.data() + out.size()) == wanted);
  CHECK(out.walls_intact());
}

}  // namespace

TEST_CASE("options in every combination: what plain loops give, or a sentence") {
  backwards_executor executor;
  int built = 0, refused = 0;
  using sinter::isa;
  std::optional<isa> const caps[] = {{}, isa::avx2, isa::avx512, isa::amx, isa::avx10_2};
  for (std::string_view backend : {"", "reference", "jit", "onednn", "JIT"})
    for (sinter::numerics numerics : {sinter::numerics::strict, sinter::numerics::peer})
      for (std::optional<isa> const& cap : caps)
        for (std::string_view in_place : {"", "r", "x", "w", "nobody"})
          for (int pick = 0; pick < 48; ++pick) {
            odd c;
            c.o = quiet();
            c.o.backend = backend;
            c.o.numerics = numerics;
            c.o.max_isa = cap;
            c.o.in_place = in_place;
            c.o.threads = pick % 4 == 3 ? 3 : pick % 4 == 2 ? -1 : 1;
            if (pick / 4 % 2 == 1) c.o.executor = &executor;
            c.moves = pick / 8 % 2 == 1;
            c.o.on_fallback = c.o.on_split =
                pick / 16 == 1 ? sinter::policy::error : sinter::policy::allow;
            c.o.strip_rows = pick / 16 == 2 ? -7 : 0;
            CAPTURE(c.text());
            bool ok = false;
            check_product(c, ok);
            ++(ok ? built : refused);
          }
  MESSAGE(built << " built, " << refused << " refused");
  CHECK(built > 400);
  CHECK(refused > 400);
}

TEST_CASE("options::tune beside other options") {
  backwards_executor executor;
  for (std::string_view backend : {"", "reference", "jit"})
    for (int threads : {1, 2})
      for (bool moves : {false, true})
        for (std::optional<sinter::isa> cap : {std::optional<sinter::isa>(), {sinter::isa::avx2}}) {
          odd c;
          c.o = quiet();
          c.o.backend = backend;
          c.o.tune = true;
          c.o.threads = threads;
          c.o.executor = &executor;
          c.o.max_isa = cap;
          c.moves = moves;
          CAPTURE(c.text());
          bool ok = false;
          check_product(c, ok);
          if (moves && backend.empty()) CHECK(!ok);
        }
}
