// Compiled oneDNN primitives, kept for the shapes seen last.
//
// Making a primitive costs far more than a small layer takes to run, so the newest ones stay in a bounded table; any
// thread may use it. oneDNN's C++ API throws: nothing here does.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <memory>
#include <vector>

#include "kernels/cpu/kernel.h"

namespace telensor::cpu::TT_CPU_VARIANT {

const dnnl::engine& DnnlEngine();

// A primitive with what stands around it: operands are given in the caller's plain layout, and are reordered into
// the layout the primitive chose, and back, where the two differ.
class DnnlPlan {
 public:
  DnnlPlan() = default;  // an unsupported shape: `supported()` says false

  // `outer` is the caller's layout, `inner` the primitive's.
  void AddInput(int arg, const dnnl::memory::desc& outer, const dnnl::memory::desc& inner);
  void AddOutput(int arg, const dnnl::memory::desc& outer, const dnnl::memory::desc& inner);
  void Finish(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad);

  bool supported() const { return supported_; }

  // `data` in the order of the Add calls. Temporary memory comes from the call's workspace.
  int Run(tt_call* call, void* const* data) const;

 private:
  struct Operand {
    int arg;
    bool output;
    dnnl::memory::desc outer, inner;
    dnnl::primitive reorder;  // empty where the layouts agree
    size_t offset = 0;        // of the reordered copy in the workspace
  };
  void Add(int arg, bool output, const dnnl::memory::desc& outer, const dnnl::memory::desc& inner);
  size_t Reserve(size_t bytes);

  std::vector<Operand> operands_;
  dnnl::primitive primitive_;
  dnnl::memory::desc scratchpad_;
  size_t scratchpad_offset_ = 0;
  size_t workspace_ = 0;
  bool supported_ = false;
};

// What a plan depends on: an operation's number, dtypes, sizes and attributes. The number of threads is added by
// FindDnnlPlan, because primitives are compiled for one.
using DnnlKey = std::array<int64_t, 22>;

// The plan of `key`; made by `make` where there is none. `make` may throw: that shape is then unsupported.
using DnnlMaker = void (*)(const DnnlKey& key, DnnlPlan* plan);
std::shared_ptr<const DnnlPlan> FindDnnlPlan(const DnnlKey& key, DnnlMaker make);

}  // namespace telensor::cpu::TT_CPU_VARIANT
