// The weights of a torchvision network by name: from a safetensors file, or from the formula that needs no file.
//
//   example::weights w = example::weights::read("resnet50.safetensors").value();   // or weights::formula("resnet50")
//   w.expect("conv1.weight", {64, 3, 7, 7});     // the architecture says what it wants
//   sinter::network_builder net(sinter::bf16, w.source());
//
// What was not expected is not there, and a file whose tensor has other extents is refused. Everything is f32: half
// precision of a file is widened. Copies share one state, and keep the memory of all tensors alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <sinter/base/status.hpp>
#include <sinter/core/dtype.hpp>
#include <sinter/core/tensor_view.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formula_weights.hpp"
#include "safetensors.hpp"

namespace example {

class weights {
 public:
  /// Told after each tensor: how many are there now, and their bytes.
  using progress = void (*)(std::size_t tensors, std::size_t bytes);

  static weights formula(std::string model) { return weights({std::move(model), {}}); }
  static sinter::result<weights> read(std::string const& path) {
    auto file = safetensors::read(path);
    if (!file.ok()) return file.error();
    return weights({path, std::move(file).value()});
  }

  void expect(std::string const& key, sinter::shape const& dims) {
    state_->expected.insert_or_assign(key, dims);
  }
  void report_to(progress p) { state_->report = p; }

  /// For network_builder: gives the view of a tensor that is expected, row-major in PyTorch's shape.
  auto source() const {
    return [held = state_](std::string_view key) { return held->find(key); };
  }

 private:
  struct state {
    std::string name;  ///< of the file, or of the model
    std::optional<safetensors> file;
    std::map<std::string, sinter::shape, std::less<>> expected = {};
    std::map<std::string, std::vector<float>, std::less<>> made = {};
    progress report = nullptr;
    std::size_t tensors = 0, bytes = 0;

    sinter::result<sinter::tensor_view> find(std::string_view key) {
      auto const wanted = expected.find(key);
      if (wanted == expected.end()) return refuse(key, "is no parameter of this network");
      sinter::shape const& dims = wanted->second;
      if (auto const known = made.find(key); known != made.end())
        return sinter::tensor_view(sinter::view(known->second.data(), dims));
      auto given = file ? stored(key, dims) : made_by_formula(key, dims);
      if (!given.ok()) return given;
      ++tensors;
      bytes += sizeof(float) * static_cast<std::size_t>(sinter::element_count(dims));
      if (report != nullptr) report(tensors, bytes);
      return given;
    }

    sinter::result<sinter::tensor_view> stored(std::string_view key, sinter::shape const& dims) {
      sinter::tensor_view const v = file->find(key);
      if (v.data == nullptr || v.type == sinter::dtype::f32) {
        auto const plain = file->get<float>(key, dims);
        if (!plain.ok()) return plain.error();
        return sinter::tensor_view(sinter::view(plain->data(), dims));
      }
      if (!sinter::is_floating(v.type))
        return refuse(key, "is not of a floating dtype; F32, F16 or BF16 is wanted");
      if (!(v.dims == dims))
        return refuse(
            key, "is " + sinter::to_string(v.dims) + "; " + sinter::to_string(dims) + " is wanted");
      std::vector<float> wide(static_cast<std::size_t>(sinter::element_count(dims)));
      for (std::size_t i = 0; i < wide.size(); ++i)
        wide[i] = sinter::load_as_float(v.data, v.type, static_cast<sinter::extent>(i));
      return keep(key, dims, std::move(wide));
    }
    sinter::result<sinter::tensor_view> made_by_formula(std::string_view key,
                                                        sinter::shape const& dims) {
      return keep(key, dims, formula_tensor(name, key, dims));
    }
    sinter::tensor_view keep(std::string_view key, sinter::shape const& dims,
                             std::vector<float> values) {
      auto const at = made.emplace(key, std::move(values)).first;
      return sinter::view(std::as_const(at->second).data(), dims);
    }

    sinter::failure refuse(std::string_view key, std::string const& what) const {
      return {sinter::code::bad_argument, name + ": tensor '" + std::string(key) + "' " + what};
    }
  };

  explicit weights(state s) : state_(std::make_shared<state>(std::move(s))) {}

  std::shared_ptr<state> state_;
};

}  // namespace example
