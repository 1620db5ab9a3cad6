// share_elements() against a plain list of bytes: never a miss, and exact for slices of one bigger tensor.
#include <doctest/doctest.h>
#include <sinter/run/aliasing.hpp>

#include <random>
#include <set>

namespace {

using sinter::tensor_desc;

void add_bytes(std::set<std::ptrdiff_t>& bytes, tensor_desc const& d, std::ptrdiff_t start,
               int axis = 0) {
  if (axis >= sinter::max_rank || axis == d.dims.ssize()) {
    for (int i = 0; i < sinter::size_of(d.type); ++i) bytes.insert(start + i);
    return;
  }
  for (sinter::extent i = 0; i < d.dims[axis]; ++i)
    add_bytes(bytes, d, start + i * d.strides[axis] * sinter::size_of(d.type), axis + 1);
}
bool truly_shared(tensor_desc const& a, std::ptrdiff_t pa, tensor_desc const& b,
                  std::ptrdiff_t pb) {
  std::set<std::ptrdiff_t> in_a, in_b;
  add_bytes(in_a, a, pa);
  add_bytes(in_b, b, pb);
  for (std::ptrdiff_t byte : in_a)
    if (in_b.count(byte) != 0) return true;
  return false;
}

}  // namespace

TEST_CASE("columns of one matrix are apart, shifted ones are not") {
  float m[8 * 10] = {};
  tensor_desc const slice{sinter::dtype::f32, {8, 4}, {10, 1}};
  CHECK_FALSE(sinter::detail::share_elements(slice, m, slice, m + 4));
  CHECK_FALSE(sinter::detail::share_elements(slice, m + 6, slice, m));
  CHECK(sinter::detail::share_elements(slice, m, slice, m + 3));
  CHECK(sinter::detail::share_elements(slice, m, slice, m));
  CHECK_FALSE(sinter::detail::share_elements({sinter::dtype::f32, {0, 4}, {4, 1}}, m, slice, m));
}

TEST_CASE("random pairs: no shared byte is missed; equal nested strides are decided exactly") {
  static std::byte memory[65536];
  std::mt19937 random(7);
  auto const upto = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int exact = 0, apart = 0;
  for (int round = 0; round < 4000; ++round) {
    CAPTURE(round);
    tensor_desc a, b;
    a.type = b.type = upto(2) == 0 ? sinter::dtype::f32 : sinter::dtype::bf16;
    int const rank = 1 + upto(3);
    sinter::extent stride = 1 + upto(2);
    sinter::strides s;
    s.resize(static_cast<std::size_t>(rank));
    sinter::shape outer;
    outer.resize(static_cast<std::size_t>(rank));
    for (int i = rank - 1; i >= 0; --i) {
      s[i] = stride;
      outer[i] = 1 + upto(6);
      stride *= outer[i] + upto(2);
    }
    for (tensor_desc* d : {&a, &b}) {
      d->dims = outer;
      for (int i = 0; i < rank; ++i) d->dims[i] = 1 + upto(static_cast<int>(outer[i]));
      d->strides = s;
    }
    bool const same = upto(4) != 0;
    if (!same) b.strides[upto(rank)] += 1;
    int const pa = 2048 + upto(64) * sinter::size_of(a.type),
              pb = 2048 + upto(64) * sinter::size_of(a.type);
    bool const truth = truly_shared(a, pa, b, pb);
    bool const said = sinter::detail::share_elements(a, memory + pa, b, memory + pb);
    if (truth) CHECK(said);
    if (same) {
      CHECK(said == truth);
      ++exact;
      if (!truth) ++apart;
    }
  }
  CHECK(exact > 2000);
  CHECK(apart > 200);  // the test has seen both answers
}
