// Each launch, copy, wait and allocation of a set of commands fails in turn: the error is told, nothing the user had is
// touched, nothing leaks, and the same work done again gives the right results.
#include <gmock/gmock.h>

#include <functional>

#include "kernels/fault/fault_backend.h"
#include "server/executor_testing.h"

namespace telensor::server {
namespace {

using ::testing::HasSubstr;
using fault::Point;
using Ints = std::vector<int64_t>;

constexpr char kWords[] = "injected failure";

// What a step sees: named handles that must outlive any failure, and the results of the command.
struct State {
  TestClient* client;
  std::map<std::string, Handle> kept;
  std::vector<Handle> results;
};
using Step = std::function<absl::Status(State*)>;

// A step that is one op with one result.
Step Op(const char* name, std::vector<std::string> inputs, std::vector<Value> attrs = {}, int results = 1) {
  return [=](State* s) {
    std::vector<In> in;
    for (const std::string& i : inputs) in.emplace_back(s->kept.at(i));
    s->results = s->client->Ops(name, in, attrs, results);
    return s->client->Poison(s->results[0]);
  };
}
Step InPlace(const char* name, std::vector<std::string> inputs, std::vector<Value> attrs = {}) {
  return [=](State* s) {
    std::vector<In> in;
    for (const std::string& i : inputs) in.emplace_back(s->kept.at(i));
    s->results = {s->kept.at(inputs[0])};
    s->client->record = 0;
    absl::Status status = s->client->Do(name, in, attrs);
    s->client->record = v1::COMMAND_FLAG_RECORD;
    return status;
  };
}

struct Snapshot {
  std::map<std::string, std::pair<std::string, uint32_t>> tensors;  // bytes and version
  std::map<std::string, bool> has_grad;
};
void TakeInto(State* s, Snapshot* out) {
  for (const auto& [name, handle] : s->kept) {
    const rt::TensorImpl* tensor = s->client->executor.tensors().Find(handle).tensor;
    ASSERT_NE(tensor, nullptr) << name;
    // The storage as it lies: a read may need memory, or launch a copy.
    out->tensors[name] = {std::string(tensor->storage()->data(), tensor->storage()->bytes()), s->client->Version(handle)};
    const rt::AutogradMeta* meta = rt::AutogradMeta::Find(tensor);
    out->has_grad[name] = meta != nullptr && meta->grad;
  }
}
Snapshot Take(State* s) {
  Snapshot out;
  TakeInto(s, &out);
  return out;
}

void SetUpTensors(State* s) {
  TestClient& c = *s->client;
  s->kept["x"] = c.Random({4, 3, 6, 6});
  s->kept["a"] = c.Random({6, 8});
  s->kept["b"] = c.Random({8, 6});
  s->kept["i"] = c.WriteInts({2, 0, 1}, {3});
  s->kept["t"] = c.Op("transpose", {s->kept["a"]}, {Value::Int(0), Value::Int(1)});
  s->kept["row"] = c.Random({8});
  s->kept["w"] = c.Random({6, 8});
  EXPECT_TRUE(c.RequireGrad(s->kept["w"]).ok());
  s->kept["g"] = c.Random({6, 8});
  s->kept["m"] = c.Random({6, 8});
  s->kept["v"] = c.Op("abs", {c.Random({6, 8})});
}

const std::vector<std::pair<const char*, Step>>& Steps() {
  static const auto* const steps = new std::vector<std::pair<const char*, Step>>{
      {"add", Op("add", {"a", "w"})},
      {"promotes", Op("add", {"i", "i"}, {})},
      {"mixed dtypes", Op("mul", {"a", "wide"})},
      {"matmul", Op("matmul", {"a", "t"})},
      {"softmax", Op("softmax", {"w"}, {Value::Int(1)})},
      {"var", Op("var", {"a"}, {Value::Ints(Ints{1})})},
      {"max.dim", Op("max.dim", {"a"}, {Value::Int(0), Value::Bool(false)}, 2)},
      {"chunk of a copy", Op("contiguous", {"t"})},
      {"conv2d", Op("conv2d", {"x", "kernel", "bias"})},
      {"pool", Op("max_pool2d", {"x"}, {Value::Ints(Ints{2, 2})})},
      {"rand", Op("rand", {}, {Value::Ints(Ints{5})})},
      {"dropout", Op("dropout", {"a"}, {Value::Float(0.5), Value::Bool(true)})},
      {"sort", Op("sort", {"a"}, {}, 2)},
      {"cat", Op("cat", {"a", "w", "g"}, {Value::Int(0)})},
      {"index_select", Op("index_select", {"a", "i"}, {Value::Int(0)})},
      {"add_", InPlace("add", {"a", "g"})},
      {"add_ through a view", InPlace("add", {"t", "t"})},
      {"add_ of its own transposed", InPlace("add", {"square", "square_t"})},
      {"mul_ by another dtype", InPlace("mul", {"a", "wide"})},
      {"copy_", InPlace("copy_", {"a", "g"})},
      {"copy_ to a view", InPlace("copy_", {"t", "b"})},
      {"fill_", InPlace("fill_", {"a", "one"})},
      {"clamp_", InPlace("clamp", {"a"}, {Value::Float(-0.1), Value::Float(0.1)})},
      {"normal_", InPlace("normal_", {"a"}, {Value::Float(0), Value::Float(1)})},
      {"_sgd_step_", InPlace("_sgd_step_", {"w", "g", "m"}, {Value::Int(3), Value::Float(0.1), Value::Float(0.9), Value::Float(0),
                                                   Value::Float(0.01), Value::Bool(true), Value::Bool(false), Value::Bool(false)})},
      {"_adam_step_", InPlace("_adam_step_", {"w", "g", "m", "v"},
                              {Value::Int(4), Value::Float(0.1), Value::Float(0.9), Value::Float(0.99), Value::Float(1e-8),
                               Value::Float(0.01), Value::Bool(false), Value::Bool(false), Value::Bool(false), Value::Int(1)})},
      {"write",
       [](State* s) {
         s->results = {s->client->Write({1, 2, 3}, {3})};
         return s->client->Poison(s->results[0]);
       }},
      {"read of a view",
       [](State* s) {
         s->results.clear();
         return s->client->ReadBytes(s->kept["t"]).status();
       }},
      {"backward",
       [](State* s) {
         // Whatever fails on the way to the loss fails the pass.
         TestClient& c = *s->client;
         const Handle loss = c.Op("sum", {c.Op("tanh", {c.Op("matmul", {s->kept["w"], s->kept["b"]})})}, {Value(), Value::Bool(false)});
         s->results.clear();
         return c.Backward(loss, {s->kept["w"]}, &s->results);
       }},
      {"grad",
       [](State* s) {
         TestClient& c = *s->client;
         const Handle loss = c.Op("sum", {c.Op("mul", {s->kept["w"], s->kept["w"]})}, {Value(), Value::Bool(false)});
         v1::Command command;
         command.set_kind(v1::Command::KIND_GRAD);
         command.set_flags(v1::COMMAND_FLAG_CREATE_GRAPH);
         command.add_sizes(1);
         for (Handle h : {loss, Handle{0}, s->kept["w"]}) command.add_inputs(h);
         s->results = {c.NewHandle()};
         command.add_outputs(s->results[0]);
         c.Run(command);
         return c.Poison(s->results[0]);
       }},
  };
  return *steps;
}

// A world of its own for each failure, so that every one starts from a cold cache.
class World {
 public:
  explicit World(size_t memory_limit = 0, fault::Appearance look = {})
      : backend(rt::CpuBackend(), look), devices(backend.api()), client(devices.all(), memory_limit) {
    state.client = &client;
    SetUpTensors(&state);
    TestClient& c = client;
    state.kept["kernel"] = c.Random({2, 3, 3, 3});
    state.kept["bias"] = c.Random({2});
    state.kept["one"] = c.Write({1}, {});
    state.kept["square"] = c.Random({5, 5});
    state.kept["square_t"] = c.Op("transpose", {state.kept["square"]}, {Value::Int(0), Value::Int(1)});
    state.kept["wide"] = c.Op("_to_copy", {state.kept["a"]}, {Value::Type(DType::kFloat16)});
    first_free = c.last_handle() + 1;
  }

  void ReleaseResults() {
    std::vector<Handle> drop;
    for (Handle h = first_free; h <= client.last_handle(); ++h) drop.push_back(h);
    client.Release(drop);
  }

  fault::FaultBackend backend;
  TestDevices devices;
  TestClient client;
  State state;
  Handle first_free = 0;
};

std::vector<std::string> Results(State* s) {
  std::vector<std::string> out;
  for (Handle h : s->results) {
    const auto bytes = s->client->ReadBytes(h);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    out.push_back(bytes.ok() ? *bytes : "");
  }
  return out;
}

class ExecutorFaultTest : public ::testing::TestWithParam<size_t> {
 protected:
  const char* name() const { return Steps()[GetParam()].first; }
  const Step& step() const { return Steps()[GetParam()].second; }

  // What the step gives where nothing fails.
  std::vector<std::string> Wanted() {
    World world;
    const absl::Status status = step()(&world.state);
    EXPECT_TRUE(status.ok()) << name() << ": " << status;
    return Results(&world.state);
  }

  // The step has failed in this world.
  void CheckAfterFailure(World* world, const absl::Status& status, const Snapshot& before, size_t used,
                         const std::vector<std::string>& wanted) {
    world->backend.Heal();
    (void)world->client.Fence();  // the client has heard of it
    for (Handle h : world->state.results) {
      EXPECT_FALSE(h >= world->first_free && world->client.Holds(h)) << "a result beside an error";
    }
    const Snapshot after = Take(&world->state);
    for (const auto& [tensor, kept] : before.tensors) {
      EXPECT_EQ(after.tensors.at(tensor).first == kept.first, true) << tensor << " was changed";
      EXPECT_EQ(after.tensors.at(tensor).second, kept.second) << "the version of " << tensor;
      EXPECT_EQ(after.has_grad.at(tensor), before.has_grad.at(tensor)) << "the gradient of " << tensor;
    }
    world->ReleaseResults();
    EXPECT_EQ(world->client.executor.budget().used(), used) << "memory is still held after: " << status;
    const absl::Status again = step()(&world->state);
    ASSERT_TRUE(again.ok()) << "the second time: " << again;
    EXPECT_EQ(Results(&world->state) == wanted, true) << "other results the second time";
  }

  void Sweep(Point point, int code, int64_t times = 1) {
    SCOPED_TRACE(name());
    const std::vector<std::string> wanted = Wanted();
    for (int n = 1;; ++n) {
      ASSERT_LT(n, 200);
      SCOPED_TRACE(n);
      fault::Appearance look;
      look.host_accessible = point != Point::kCopy && point != Point::kSynchronize;  // more of both where it is not
      World world(0, look);
      const Snapshot before = Take(&world.state);
      const size_t used = world.client.executor.budget().used();
      world.backend.Fail(point, n, code, kWords, times);
      const absl::Status status = step()(&world.state);
      if (world.backend.failures(point) == 0) {
        EXPECT_TRUE(status.ok()) << status;
        const bool launches = std::string(name()) != "write";
        EXPECT_TRUE(n > 1 || point != Point::kLaunch || !launches) << "nothing was made to fail";
        break;
      }
      EXPECT_FALSE(status.ok()) << "a failure nobody hears of";
      EXPECT_THAT(std::string(status.message()), HasSubstr(code == TT_OUT_OF_MEMORY ? "out of memory" : kWords));
      CheckAfterFailure(&world, status, before, used, wanted);
    }
  }
};

TEST_P(ExecutorFaultTest, EachLaunch) { Sweep(Point::kLaunch, TT_INTERNAL); }
TEST_P(ExecutorFaultTest, EachCopy) { Sweep(Point::kCopy, TT_INTERNAL); }
TEST_P(ExecutorFaultTest, EachWait) { Sweep(Point::kSynchronize, TT_INTERNAL); }
TEST_P(ExecutorFaultTest, EachDeviceAllocation) {
  Sweep(Point::kAllocate, TT_INTERNAL);
  Sweep(Point::kAllocate, TT_OUT_OF_MEMORY, INT64_MAX);
}

TEST_P(ExecutorFaultTest, EachAllocation) {
  SCOPED_TRACE(name());
  const std::vector<std::string> wanted = Wanted();
  size_t used;
  {
    World world;
    used = world.client.executor.budget().used();
  }
  // Every amount of memory between none and enough: any allocation is the one that does not fit.
  for (size_t limit = used;; limit += 512) {
    ASSERT_LT(limit, used + (1 << 20));
    SCOPED_TRACE(limit - used);
    World world(limit);
    const Snapshot before = Take(&world.state);
    const absl::Status status = step()(&world.state);
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    world.ReleaseResults();
    const Snapshot after = Take(&world.state);
    EXPECT_EQ(after.tensors == before.tensors, true);
    EXPECT_EQ(after.has_grad == before.has_grad, true);
    EXPECT_EQ(world.client.executor.budget().used(), used);
    EXPECT_EQ(world.devices.allocated_bytes(), static_cast<int64_t>(used));
  }
  World world;
  ASSERT_TRUE(step()(&world.state).ok());
  EXPECT_EQ(Results(&world.state) == wanted, true);
}

INSTANTIATE_TEST_SUITE_P(Steps, ExecutorFaultTest, ::testing::Range(size_t{0}, Steps().size()));

TEST(ExecutorFaultEndTest, NothingLeaksWhateverFails) {
  fault::FaultBackend backend(rt::CpuBackend());
  {
    TestDevices devices(backend.api());
    for (size_t k = 0; k < Steps().size(); ++k) {
      for (const Point point : {Point::kLaunch, Point::kCopy, Point::kAllocate}) {
        TestClient client(devices.all());
        State state{&client, {}, {}};
        backend.Fail(point, 5, TT_INTERNAL, kWords, 3);
        // Even setting up may fail here; what comes of it is an error like any other.
        state.kept["a"] = client.Random({6, 8});
        state.kept["w"] = client.Op("neg", {state.kept["a"]});
        const bool leaf = client.RequireGrad(state.kept["w"]).ok();
        const Handle y = client.Op("mul", {state.kept["w"], state.kept["a"]});
        const Handle loss = client.Op("sum", {client.Op("exp", {y})}, {Value(), Value::Bool(false)});
        std::vector<Handle> grads;
        if (leaf) (void)client.Backward(loss, {state.kept["w"]}, &grads, k % 2 ? v1::COMMAND_FLAG_CREATE_GRAPH : 0);
        backend.Heal();
      }
    }
    EXPECT_EQ(devices.allocated_bytes(), 0);
    devices[0].allocator().EmptyCache();
    EXPECT_EQ(backend.live_allocations(), 0);
  }
  EXPECT_EQ(backend.live_streams(), 0);
  EXPECT_EQ(backend.wrong_frees(), 0);
}

// Two leaves have gradients already. A pass that fails adds to none; only a fault in the sums themselves, which come
// last and need no memory, can leave one done and one not, and then each is one or the other.
TEST(ExecutorFaultEndTest, AFailedPassLeavesGradientsAlone) {
  struct Pass {
    explicit Pass(size_t limit = 0) : backend(rt::CpuBackend()), devices(backend.api()), client(devices.all(), limit) {
      for (Handle* leaf : {&v, &w}) {
        *leaf = client.Random({8, 8});
        EXPECT_TRUE(client.RequireGrad(*leaf).ok());
      }
      EXPECT_TRUE(client.Backward(Loss(), {v, w}, &grads).ok());
      loss = Loss();
    }
    Handle Loss() { return client.Op("sum", {client.Op("tanh", {client.Op("matmul", {v, w})})}, {Value(), Value::Bool(false)}); }
    absl::Status Again() {
      std::vector<Handle> none;
      return client.Backward(loss, {}, &none);
    }
    std::vector<std::string> Grads() { return {*client.ReadBytes(grads[0]), *client.ReadBytes(grads[1])}; }
    fault::FaultBackend backend;
    TestDevices devices;
    TestClient client;
    Handle v = 0, w = 0, loss = 0;
    std::vector<Handle> grads;
  };
  std::vector<std::string> old, sums;
  size_t used = 0;
  {
    Pass pass;
    old = pass.Grads();
    used = pass.client.executor.budget().used();
    ASSERT_TRUE(pass.Again().ok());
    sums = pass.Grads();
    ASSERT_NE(old[0], sums[0]);
  }
  int alone = 0, halves = 0;
  for (int n = 1;; ++n) {
    Pass pass;
    pass.backend.Fail(Point::kLaunch, n, TT_INTERNAL, kWords);
    if (pass.Again().ok()) break;
    const std::vector<std::string> now = pass.Grads();
    for (int k = 0; k < 2; ++k) EXPECT_EQ(now[k] == old[k] || now[k] == sums[k], true) << n;
    (now == old ? alone : halves) += 1;
  }
  EXPECT_GE(alone, 4);
  EXPECT_LE(halves, 1) << "only the fault in the very last sum";
  for (size_t limit = used;; limit += 256) {
    Pass pass(limit);
    if (pass.Again().ok()) break;
    EXPECT_EQ(pass.Grads() == old, true) << limit - used;
  }
}

TEST(ExecutorFaultEndTest, AFullDeviceGivesItsCacheBackAndTriesAgain) {
  fault::FaultBackend backend(rt::CpuBackend());
  TestDevices devices(backend.api());
  TestClient client(devices.all());
  client.Release({client.Random({4 << 20})});  // cached
  backend.Fail(Point::kAllocate, 1, TT_OUT_OF_MEMORY, "full");
  const Handle x = client.Op("zeros", {}, {Value::Ints(Ints{8 << 20})});
  EXPECT_TRUE(client.Holds(x)) << client.Poison(x);
  EXPECT_EQ(devices[0].allocator().Stats().num_alloc_retries, 1);
  backend.Fail(Point::kAllocate, 1, TT_OUT_OF_MEMORY, "full", INT64_MAX);
  const Handle y = client.Op("zeros", {}, {Value::Ints(Ints{16 << 20})});
  const absl::Status status = client.Poison(y);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("64.00 MiB"));
  EXPECT_EQ(devices[0].allocator().Stats().num_ooms, 1);
}

TEST(ExecutorFaultEndTest, ASessionWithoutAStreamSaysSo) {
  fault::FaultBackend backend(rt::CpuBackend());
  TestDevices devices(backend.api());
  TestClient client(devices.all());
  backend.Fail(Point::kStream, 1, TT_INTERNAL, "no stream");
  const Handle x = client.Write({1}, {1});
  EXPECT_THAT(std::string(client.Poison(x).message()), HasSubstr("stream creation failed: no stream"));
  EXPECT_THAT(client.Values(client.Write({1}, {1})), ::testing::ElementsAre(1));
}

}  // namespace
}  // namespace telensor::server
