// Batches of real architectures image by image: the bits of the same network without stretches, batch fixed or not.
//
// Small images, since rules by size are set aside: slices, poolings, shuffles, dense blocks and residuals are all there.
#include <doctest/doctest.h>

#include <sinter/run/network_plan.hpp>
#include <string>

#include "models/all.hpp"
#include "models/expected.hpp"

namespace {

constexpr models::extent side = 64;

sinter::network build(std::string const& name, sinter::precision const& dtypes,
                      sinter::strip_policy stretches, models::extent batch) {
  sinter::options o;
  o.stretches = stretches;
  return models::build(*models::find_architecture(name), dtypes, example::weights::formula(name), o,
                       batch, side)
      .value();
}

/// Groups that are in stretches.
int stretched(sinter::network const& net) {
  int count = 0;
  for (auto const& s : net.plan().program->strips)
    if (s.held == "an image") count += s.last - s.first + 1;
  return count;
}

void check(std::string const& name) {
  std::vector<float> images = models::formula_image();
  images.resize(3 * side * side * 3);
  for (sinter::precision const& dtypes : {sinter::f32, sinter::bf16}) {
    sinter::network const whole = build(name, dtypes, sinter::strip_policy::never, 3);
    sinter::network const image_by_image = build(name, dtypes, sinter::strip_policy::always, 3);
    sinter::network const any = build(name, dtypes, sinter::strip_policy::always, sinter::dynamic);
    MESSAGE(name, ": ", stretched(image_by_image), " of ", whole.group_count(),
            " groups image by image, arena ", image_by_image.memory().arena, " of ",
            whole.memory().arena, " bytes");
    CHECK(stretched(whole) == 0);
    CHECK(3 * stretched(image_by_image) > 2 * whole.group_count());
    CHECK(image_by_image.memory().arena < whole.memory().arena);
    std::vector<float> const wanted = models::scores(whole, images, 3, side);
    CHECK(models::scores(image_by_image, images, 3, side) == wanted);
    sinter::network const plain = build(name, dtypes, sinter::strip_policy::never, sinter::dynamic);
    CHECK(stretched(any) > 0);
    CHECK(models::scores(any, images, 3, side) == models::scores(plain, images, 3, side));
  }
}

}  // namespace

TEST_CASE("shufflenet_v2_x1_0 image by image") { check("shufflenet_v2_x1_0"); }
TEST_CASE("squeezenet1_1 image by image") { check("squeezenet1_1"); }
TEST_CASE("densenet121 image by image") { check("densenet121"); }
TEST_CASE("mobilenet_v2 image by image") { check("mobilenet_v2"); }
TEST_CASE("resnet18 image by image") { check("resnet18"); }
