#include "kernels/cpu/dnnl_cache.h"

#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace telensor::cpu::TT_CPU_VARIANT {

namespace {

constexpr size_t kCapacity = 256;
constexpr size_t kAlignment = 64;

// Streams of the CPU engine hold no work; one for each thread keeps to oneDNN's rule of one user at a time.
dnnl::stream& DnnlStream() {
  thread_local dnnl::stream stream(DnnlEngine());
  return stream;
}

struct FullKey {
  DnnlKey key;
  int64_t threads;
  bool operator==(const FullKey& other) const { return threads == other.threads && key == other.key; }
};

struct FullKeyHash {
  size_t operator()(const FullKey& k) const {
    uint64_t h = static_cast<uint64_t>(k.threads);
    for (const int64_t word : k.key) h = (h ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15u, h ^= h >> 29;
    return static_cast<size_t>(h);
  }
};

// The plans used last, newest first.
class Cache {
 public:
  std::shared_ptr<const DnnlPlan> Find(const FullKey& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = index_.find(key);
    if (it == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, it->second);
    return it->second->second;
  }

  void Insert(const FullKey& key, std::shared_ptr<const DnnlPlan> plan) {
    std::shared_ptr<const DnnlPlan> evicted;  // destroyed after the lock is gone
    std::lock_guard<std::mutex> lock(mutex_);
    if (index_.count(key) != 0) return;  // another thread was faster
    order_.emplace_front(key, std::move(plan));
    index_.emplace(key, order_.begin());
    if (order_.size() <= kCapacity) return;
    evicted = std::move(order_.back().second);
    index_.erase(order_.back().first);
    order_.pop_back();
  }

 private:
  using Order = std::list<std::pair<FullKey, std::shared_ptr<const DnnlPlan>>>;
  std::mutex mutex_;
  Order order_;
  std::unordered_map<FullKey, Order::iterator, FullKeyHash> index_;
};

Cache& PlanCache() {
  static auto* const cache = new Cache();  // never destroyed: threads may still compute while the process ends
  return *cache;
}

}  // namespace

const dnnl::engine& DnnlEngine() {
  static const auto* const engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

size_t DnnlPlan::Reserve(size_t bytes) {
  const size_t offset = workspace_;
  workspace_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

void DnnlPlan::Add(int arg, bool output, const dnnl::memory::desc& outer, const dnnl::memory::desc& inner) {
  Operand operand{arg, output, outer, inner, {}, 0};
  if (outer != inner) {
    const auto& engine = DnnlEngine();
    const auto& from = output ? inner : outer;
    const auto& to = output ? outer : inner;
    operand.reorder = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
    operand.offset = Reserve(inner.get_size());
  }
  operands_.push_back(std::move(operand));
}

void DnnlPlan::AddInput(int arg, const dnnl::memory::desc& outer, const dnnl::memory::desc& inner) {
  Add(arg, false, outer, inner);
}

void DnnlPlan::AddOutput(int arg, const dnnl::memory::desc& outer, const dnnl::memory::desc& inner) {
  Add(arg, true, outer, inner);
}

void DnnlPlan::Finish(dnnl::primitive primitive, const dnnl::memory::desc& scratchpad) {
  primitive_ = std::move(primitive);
  scratchpad_ = scratchpad;
  if (scratchpad.get_size() > 0) scratchpad_offset_ = Reserve(scratchpad.get_size());
  supported_ = true;
}

int DnnlPlan::Run(tt_call* call, void* const* data) const {
  char* space = nullptr;
  if (workspace_ > 0) {
    // The allocator promises no alignment; the primitives are faster with it.
    space = static_cast<char*>(call->workspace(call, workspace_ + kAlignment));
    if (space == nullptr) return Fail(call, TT_OUT_OF_MEMORY, "no memory for the workspace of a layer");
    space += (kAlignment - reinterpret_cast<uintptr_t>(space) % kAlignment) % kAlignment;
  }
  try {
    const auto& engine = DnnlEngine();
    auto& stream = DnnlStream();
    std::unordered_map<int, dnnl::memory> args;
    std::array<dnnl::memory, 4> outer;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      outer[i] = dnnl::memory(operand.outer, engine, data[i]);
      if (!operand.reorder) {
        args.emplace(operand.arg, outer[i]);
        continue;
      }
      dnnl::memory inner(operand.inner, engine, space + operand.offset);
      if (!operand.output) operand.reorder.execute(stream, {{DNNL_ARG_FROM, outer[i]}, {DNNL_ARG_TO, inner}});
      args.emplace(operand.arg, inner);
    }
    if (scratchpad_.get_size() > 0) {
      args.emplace(DNNL_ARG_SCRATCHPAD, dnnl::memory(scratchpad_, engine, space + scratchpad_offset_));
    }
    primitive_.execute(stream, args);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      if (!operand.output || !operand.reorder) continue;
      operand.reorder.execute(stream, {{DNNL_ARG_FROM, args.at(operand.arg)}, {DNNL_ARG_TO, outer[i]}});
    }
    return TT_OK;
  } catch (const std::bad_alloc&) {
    return Fail(call, TT_OUT_OF_MEMORY, "no memory for a layer");
  } catch (const dnnl::error& error) {
    return Fail(call, error.status == dnnl_out_of_memory ? TT_OUT_OF_MEMORY : TT_INTERNAL, "oneDNN: %s", error.what());
  } catch (const std::exception& error) {
    return Fail(call, TT_INTERNAL, "oneDNN: %s", error.what());
  }
}

std::shared_ptr<const DnnlPlan> FindDnnlPlan(const DnnlKey& key, DnnlMaker make) {
  try {
    const FullKey full{key, omp_in_parallel() ? 1 : omp_get_max_threads()};
    if (auto found = PlanCache().Find(full)) return found;
    auto plan = std::make_shared<DnnlPlan>();
    try {
      make(key, plan.get());
    } catch (const dnnl::error& error) {
      if (error.status == dnnl_out_of_memory) return std::make_shared<DnnlPlan>();  // may succeed another time
      *plan = DnnlPlan();
    }
    PlanCache().Insert(full, plan);
    return plan;
  } catch (...) {
    return nullptr;
  }
}

}  // namespace telensor::cpu::TT_CPU_VARIANT
