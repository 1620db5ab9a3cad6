// The examples' safetensors reader: sound files are read, and each way of being broken has its sentence.
#include "support/safetensors.hpp"

#include <doctest/doctest.h>

namespace {

/// A file in memory: the header's length, the header, `data_bytes` bytes 0, 1, 2...
std::vector<std::byte> file_of(std::string const& header, std::size_t data_bytes) {
  std::vector<std::byte> file;
  for (int i = 0; i < 8; ++i)
    file.push_back(static_cast<std::byte>(header.size() >> (8 * i) & 255U));
  for (char const c : header) file.push_back(static_cast<std::byte>(c));
  for (std::size_t i = 0; i < data_bytes; ++i) file.push_back(static_cast<std::byte>(i));
  return file;
}

std::string refusal(std::vector<std::byte> const& file) {
  auto const made = example::safetensors::parse(file, "f");
  return made.ok() ? "accepted" : made.error().message;
}
std::string refusal(std::string const& header, std::size_t data_bytes) {
  return refusal(file_of(header, data_bytes));
}

std::string const two = R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[12,14]},)"
                        R"("a":{"dtype":"F32","shape":[3,1],"data_offsets":[0,12]},)"
                        R"("__metadata__":{"source":"here"}}  )";

std::string one(std::string const& type, std::string const& shape, std::string const& offsets) {
  return R"({"t":{"dtype":)" + type + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

}  // namespace

TEST_CASE("a sound file is read: tensors in any order, metadata, padding") {
  auto const made = example::safetensors::parse(file_of(two, 14), "f");
  REQUIRE(made.ok());
  CHECK(made.value().metadata("source") == "here");
  CHECK(made.value().metadata("licence").empty());
  auto const a = made.value().get<float>("a", {3, 1});
  REQUIRE(a.ok());
  CHECK(a.value().size() == 3);
  CHECK(std::bit_cast<std::uint32_t>(a.value()[1]) == 0x07060504U);
  auto const b = made.value().get<std::uint8_t>("b", {2});
  REQUIRE(b.ok());
  CHECK(b.value()[1] == 13);
}

TEST_CASE("spans stay valid when the file object is moved") {
  auto made = example::safetensors::parse(file_of(two, 14), "f");
  auto const b = made.value().get<std::uint8_t>("b", {2}).value();
  example::safetensors const moved = std::move(made).value();
  CHECK(moved.get<std::uint8_t>("b", {2}).value().data() == b.data());
  CHECK(b[0] == 12);
}

TEST_CASE("scalars and empty tensors are tensors") {
  CHECK(refusal(one(R"("F32")", "[]", "[0,4]"), 4) == "accepted");
  CHECK(refusal(one(R"("F32")", "[0,7]", "[0,0]"), 0) == "accepted");
  CHECK(refusal("{}", 0) == "accepted");
}

TEST_CASE("what is asked for is checked") {
  auto const made = example::safetensors::parse(file_of(two, 14), "f");
  CHECK(made.value().get<float>("c", {3}).error().message == "f: there is no tensor 'c'");
  CHECK(made.value().get<std::uint8_t>("a", {3, 1}).error().message ==
        "f: tensor 'a' is F32; u8 is wanted");
  CHECK(made.value().get<float>("a", {3}).error().message == "f: tensor 'a' is 3x1; 3 is wanted");
  auto const odd = example::safetensors::parse(
      file_of(R"({"p":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
              R"("q":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})",
              5),
      "f");
  REQUIRE(odd.ok());
  CHECK(odd.value().get<float>("q", {1}).error().message ==
        "f: tensor 'q' begins at byte 1, not a multiple of its element's size");
}

TEST_CASE("a header that does not fit its file is refused") {
  CHECK(refusal(std::vector<std::byte>(7)) ==
        "f: has 7 bytes; the 8 of the header's length are wanted first");
  CHECK(refusal(std::vector<std::byte>(8)) == "f: its header does not begin with '{'");
  std::vector<std::byte> file = file_of(two, 14);
  file[2] = std::byte{1};  // 2^16 more
  CHECK(refusal(file) == "f: says that its header has " + std::to_string(65536 + two.size()) +
                             " bytes, and only " + std::to_string(two.size() + 14) + " follow");
  file[7] = std::byte{255};
  CHECK(refusal(file).ends_with(" bytes; at most 100000000 are allowed"));
}

TEST_CASE("a header that is no JSON object of tensors is refused") {
  CHECK(refusal("[]", 0) == "f: its header does not begin with '{'");
  CHECK(refusal(" {}", 0) == "f: its header does not begin with '{'");
  CHECK(refusal("{", 0) == "f: its header is not valid JSON");
  CHECK(refusal("{} {}", 0) == "f: its header is not valid JSON");
  CHECK(refusal(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                R"("t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
                1) == "f: its header has the key 't' twice in one object");
  CHECK(refusal(R"({"t":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1) ==
        "f: its header has the key 'shape' twice in one object");
  CHECK(refusal(R"({"t":3})", 0) ==
        "f: tensor 't' has other keys than dtype, shape and data_offsets");
  CHECK(refusal(R"({"t":{"dtype":"U8","shape":[1],"offsets":[0,1]}})", 1) ==
        "f: tensor 't' has other keys than dtype, shape and data_offsets");
  CHECK(refusal(R"({"__metadata__":[]})", 0) == "f: its __metadata__ is not an object");
  CHECK(refusal(R"({"__metadata__":{"a":1}})", 0) ==
        "f: its __metadata__ has 'a', which is not a string");
}

TEST_CASE("dtype, shape and bytes must agree") {
  CHECK(refusal(one(R"("F33")", "[1]", "[0,4]"), 4) ==
        R"(f: tensor 't' has the dtype "F33", which is not known)");
  CHECK(refusal(one("4", "[1]", "[0,4]"), 4) ==
        "f: tensor 't' has the dtype 4, which is not known");
  CHECK(refusal(one(R"("F32")", "[2]", "[0,4]"), 4) ==
        "f: tensor 't' of F32 2 needs 8 bytes; its data_offsets give 4");
  CHECK(refusal(one(R"("F16")", "[2]", "[0,8]"), 8) ==
        "f: tensor 't' of F16 2 needs 4 bytes; its data_offsets give 8");
  CHECK(refusal(one(R"("U8")", "[-1]", "[0,1]"), 1)
            .starts_with("f: tensor 't' has the extent -1; a number from 0"));
  CHECK(refusal(one(R"("U8")", "[1.5]", "[0,1]"), 1)
            .starts_with("f: tensor 't' has the extent 1.5;"));
  CHECK(
      refusal(one(R"("U8")", "[1,1,1,1,1,1,1]", "[0,1]"), 1).find("a list of at most 6 extents") !=
      std::string::npos);
  CHECK(refusal(one(R"("F32")", "[4611686018427387904,2]", "[0,0]"), 0) ==
        "f: tensor 't' of 4611686018427387904x2 has more than 2^63 - 1 bytes");
}

TEST_CASE("offsets lie in the file, in order, and tile it") {
  CHECK(refusal(one(R"("U8")", "[1]", "[0]"), 1) ==
        "f: tensor 't' has the data_offsets [0]; [begin, end] is wanted");
  CHECK(refusal(one(R"("U8")", "[1]", "[-1,0]"), 1) ==
        "f: tensor 't' has the data_offsets [-1,0]; [begin, end] is wanted");
  CHECK(refusal(one(R"("U8")", "[1]", "[1,0]"), 1) ==
        "f: tensor 't' has the data_offsets [1,0]; there are 1 bytes of data");
  CHECK(refusal(one(R"("U8")", "[2]", "[0,2]"), 1) ==
        "f: tensor 't' has the data_offsets [0,2]; there are 1 bytes of data");
  CHECK(refusal(one(R"("U8")", "[1]", "[0,1]"), 3) == "f: bytes 1 to 3 belong to no tensor");
  CHECK(refusal(one(R"("U8")", "[1]", "[1,2]"), 2) == "f: bytes 0 to 1 belong to no tensor");
  CHECK(refusal(R"({"p":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                R"("q":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                3) == "f: tensors 'p' and 'q' overlap");
}

TEST_CASE("files of the demo are read, and a missing one is refused") {
  std::string const folder = SINTER_EXAMPLES "/data/";
  auto const weights = example::safetensors::read(folder + "digits_cnn.safetensors");
  REQUIRE(weights.ok());
  CHECK(weights.value().get<float>("fc1.weight", {64, 512}).ok());
  CHECK(example::safetensors::read(folder + "nothing").error().message ==
        folder + "nothing: cannot be opened");
}

TEST_CASE("no byte of the header can be changed into a crash") {
  // Every byte replaced by a few others: whatever comes out is an answer, and an accepted file tiles its data.
  std::vector<std::byte> const sound = file_of(two, 14);
  for (std::size_t i = 0; i < sound.size() - 14; ++i)
    for (int const c : {0x00, 0x22, 0x2d, 0x30, 0x39, 0x5b, 0x7b, 0x7d, 0xff}) {
      std::vector<std::byte> file = sound;
      file[i] = static_cast<std::byte>(c);
      auto const made = example::safetensors::parse(file, "f");
      if (!made.ok()) CHECK(made.error().message.starts_with("f: "));
    }
  for (std::size_t size = 0; size < sound.size(); ++size)
    CHECK(refusal(std::vector<std::byte>(
              sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size))) != "accepted");
}
