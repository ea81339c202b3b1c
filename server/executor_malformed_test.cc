// What a client must never send: each is a clear error, changes nothing, and the session goes on.
#include <gmock/gmock.h>

#include <limits>

#include "server/executor_testing.h"

namespace telensor::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ints = std::vector<int64_t>;
using Kind = v1::Command::Kind;

constexpr int64_t kHuge = int64_t{1} << 62;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

class MalformedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    x_ = client_.Write({1, 2, 3, 4, 5, 6}, {2, 3});
    w_ = client_.Write({1, -1, 2}, {3});
    ASSERT_TRUE(client_.RequireGrad(w_).ok());
    index_ = client_.WriteInts({0, 1}, {2});
    y_ = client_.Op("mul", {x_, w_});
  }

  // Runs the command; its error. Checks that nothing but handles of the command's own changed.
  absl::Status Refused(const v1::Command& command) {
    const size_t live = client_.executor.tensors().size();
    const size_t used = client_.executor.budget().used();
    const uint64_t x_version = client_.Version(x_);
    client_.Run(command);
    EXPECT_EQ(client_.outcome, Executor::Outcome::kDone);
    absl::Status status = client_.Error();
    size_t poisoned = 0;
    for (const Handle handle : command.outputs()) {
      const absl::Status poison = client_.Poison(handle);
      if (poison.ok()) continue;
      ++poisoned;
      if (status.ok()) status = poison;
    }
    for (const v1::ReadResult& read : client_.events.reads()) status = TestClient::FromWire(read.error());
    EXPECT_FALSE(status.ok()) << "it was carried out: " << command.ShortDebugString();
    EXPECT_NE(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_FALSE(status.message().empty());
    EXPECT_EQ(client_.executor.tensors().size(), live + poisoned);
    EXPECT_EQ(client_.executor.budget().used(), used) << status;
    EXPECT_EQ(client_.Version(x_), x_version);
    (void)client_.Fence();  // until the client has heard of it, what was to be written is not read
    EXPECT_THAT(client_.Values(x_), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(client_.Values(client_.Op("add", {w_, 1})), ElementsAre(2, 0, 3)) << "the session goes on";
    client_.Release({client_.last_handle()});
    for (const Handle handle : command.outputs()) {
      if (!client_.Poison(handle).ok()) client_.Release({handle});
    }
    return status;
  }
  // Its words; most callers only want that there is an error.
  std::string RefusedOp(const char* name, const std::vector<In>& inputs, const std::vector<Value>& attrs = {}, int results = 1) {
    v1::Command command = client_.Command(name, inputs, attrs);
    for (int i = 0; i < results; ++i) command.add_outputs(client_.NewHandle());
    SCOPED_TRACE(name);
    return Words(Refused(command));
  }
  std::string Words(const absl::Status& status) { return std::string(status.message()); }

  TestDevices devices_{rt::CpuBackend()};
  TestClient client_{devices_.all()};
  Handle x_, w_, index_, y_;
};

TEST_F(MalformedTest, NumbersOfOpsAndKinds) {
  for (uint32_t op : {static_cast<uint32_t>(OpTable::Get().size()), 65535u, 65536u, UINT32_MAX}) {
    v1::Command command = client_.Command("neg", {x_});
    command.set_op(op);
    command.add_outputs(client_.NewHandle());
    const absl::Status status = Refused(command);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(Words(status), HasSubstr("this server has no op number"));
  }
  for (int kind : {0, 14, 99, -1, 1 << 30}) {
    v1::Command command;
    command.set_kind(static_cast<Kind>(kind));
    EXPECT_THAT(Words(Refused(command)), HasSubstr("a command of unknown kind"));
  }
}

TEST_F(MalformedTest, NumbersOfOperands) {
  EXPECT_THAT((RefusedOp("neg", {})), HasSubstr("neg: takes 1 tensors, not 0"));
  EXPECT_THAT((RefusedOp("neg", {x_, x_})), HasSubstr("neg: takes 1 tensors, not 2"));
  EXPECT_THAT((RefusedOp("add", {x_})), HasSubstr("add: takes 2 tensors, not 1"));
  EXPECT_THAT((RefusedOp("where", {x_, x_})), HasSubstr("takes 3 tensors, not 2"));
  RefusedOp("cat", {}, {Value::Int(0)});
  RefusedOp("stack", {}, {Value::Int(0)});
  EXPECT_THAT((RefusedOp("neg", {Handle{0}})), HasSubstr("argument 'self' must be a Tensor, not None"));
  EXPECT_THAT((RefusedOp("neg", {3})), HasSubstr("argument 'self' must be a Tensor, not None"));
  EXPECT_THAT((RefusedOp("matmul", {x_, 2.0})), HasSubstr("must be a Tensor"));
  // Numbers that no operand takes.
  v1::Command command = client_.Command("add", {x_, 2});
  TestClient::Fill(Value::Int(3), command.add_scalars());
  command.add_outputs(client_.NewHandle());
  EXPECT_THAT(Words(Refused(command)), HasSubstr("add: takes 1 numbers, not 2"));
}

TEST_F(MalformedTest, NumbersOfResults) {
  EXPECT_THAT((RefusedOp("neg", {x_}, {}, 0)), HasSubstr("neg: gives 1 results, not 0"));
  EXPECT_THAT((RefusedOp("neg", {x_}, {}, 2)), HasSubstr("neg: gives 1 results, not 2"));
  EXPECT_THAT((RefusedOp("max.dim", {x_}, {Value::Int(0), Value::Bool(false)}, 1)), HasSubstr("gives 2 results, not 1"));
  EXPECT_THAT((RefusedOp("chunk", {x_}, {Value::Int(2), Value::Int(0)}, 3)), HasSubstr("gives 2 results, not 3"));
  // In place and without results: the write must not happen either.
  v1::Command command = client_.Command("mul", {x_, 10});
  command.set_flags(v1::COMMAND_FLAG_IN_PLACE);
  command.add_outputs(client_.NewHandle());
  EXPECT_THAT(Words(Refused(command)), HasSubstr("mul: gives 0 results, not 1"));
  EXPECT_THAT((RefusedOp("fill_", {x_, 1})), HasSubstr("gives 0 results, not 1"));
  EXPECT_THAT((RefusedOp("_sgd_step_", {x_, x_},
                              {Value::Int(2), Value::Float(1), Value::Float(0), Value::Float(0), Value::Float(0),
                               Value::Bool(false), Value::Bool(false), Value::Bool(false)})),
              HasSubstr("gives 0 results, not 1"));
}

TEST_F(MalformedTest, KindsOfAttributes) {
  const std::vector<Value> all = {Value::Bool(true),  Value::Int(1),        Value::Float(0.5),   Value::Ints(Ints{0, 1}),
                                  Value::String("x"), Value::Type(DType::kFloat32), Value::Device(0), Value::Floats({1, 2})};
  for (const Value& wrong : all) {
    if (wrong.kind() != Value::Kind::kInt) {
      EXPECT_THAT((RefusedOp("transpose", {x_}, {Value::Int(0), wrong})), HasSubstr("'dim1' is of the wrong kind"));
    }
    if (wrong.kind() != Value::Kind::kInts) RefusedOp("reshape", {x_}, {wrong});
    if (wrong.kind() != Value::Kind::kFloat) RefusedOp("leaky_relu", {x_}, {wrong});
    if (wrong.kind() != Value::Kind::kDType && !wrong.none()) RefusedOp("_to_copy", {x_}, {wrong});
    if (wrong.kind() != Value::Kind::kString) RefusedOp("gelu", {x_}, {wrong});
    if (wrong.kind() != Value::Kind::kBool) RefusedOp("mean", {x_}, {Value(), wrong});
  }
  RefusedOp("transpose", {x_}, {Value(), Value::Int(1)});
  RefusedOp("gelu", {x_}, {Value::String("no such way")});
  RefusedOp("relu", {x_}, {Value::Int(1)});
  RefusedOp("transpose", {x_}, {Value::Int(0), Value::Int(1), Value::Int(1)});
  v1::Command scalar = client_.Command("add", {x_, 2});
  scalar.mutable_scalars(0)->set_kind(static_cast<uint32_t>(Value::Kind::kString));
  scalar.add_outputs(client_.NewHandle());
  EXPECT_THAT(Words(Refused(scalar)), HasSubstr("a number was expected"));
}

TEST_F(MalformedTest, AbsurdSizesOfNewTensors) {
  const std::vector<Ints> sizes = {{-1},           {2, -3},      {kMin},          {kHuge},          {kMax},
                                   {kHuge, kHuge}, {kHuge, 4},   {3037000500, 3037000500},          {int64_t{1} << 32, int64_t{1} << 32},
                                   {0, kHuge, 4},  {kMax, 0, 2}, Ints(17, 1),     Ints(1000, 2)};
  for (const Ints& s : sizes) {
    SCOPED_TRACE(Value::Ints(s).ints().size());
    RefusedOp("zeros", {}, {Value::Ints(s)});
    RefusedOp("full", {}, {Value::Ints(s), Value::Int(1)});
    RefusedOp("rand", {}, {Value::Ints(s)});
    if (s != Ints{-1}) RefusedOp("expand", {w_}, {Value::Ints(s)});
    if (s != Ints{-1}) RefusedOp("reshape", {x_}, {Value::Ints(s)});
    for (Kind kind : {v1::Command::KIND_WRITE, v1::Command::KIND_UPLOAD}) {
      v1::Command command = TestClient::WriteCommand(client_.NewHandle(), s, DType::kFloat32, "1234");
      command.set_kind(kind);
      (void)Refused(command);
    }
  }
}

TEST_F(MalformedTest, AbsurdNumbers) {
  for (int64_t n : {kMin, kMin + 1, int64_t{-1}, kHuge, kMax}) {
    SCOPED_TRACE(n);
    RefusedOp("eye", {}, {Value::Int(n)});
    RefusedOp("randperm", {}, {Value::Int(n)});
    RefusedOp("one_hot", {index_}, {Value::Int(n == -1 ? -2 : n)});
    RefusedOp("transpose", {x_}, {Value::Int(n == -1 ? 5 : n), Value::Int(0)});
    RefusedOp("unsqueeze", {x_}, {Value::Int(n == -1 ? -4 : n)});
    RefusedOp("sum", {x_}, {Value::Ints(Ints{n == -1 ? -3 : n}), Value::Bool(false)});
    RefusedOp("select", {x_}, {Value::Int(0), Value::Int(n == -1 ? -3 : n)});
    RefusedOp("narrow", {x_}, {Value::Int(0), Value::Int(0), Value::Int(n)});
    RefusedOp("narrow", {x_}, {Value::Int(0), Value::Int(n == -1 ? 3 : n), Value::Int(1)});
    RefusedOp("slice", {x_}, {Value::Int(0), Value::Int(0), Value::Int(2), Value::Int(n > 0 ? 0 : n)});
    RefusedOp("topk", {x_}, {Value::Int(n), Value::Int(1), Value::Bool(true), Value::Bool(true)}, 2);
    RefusedOp("repeat", {x_}, {Value::Ints(Ints{n, 2})});
    RefusedOp("_as_strided", {x_}, {Value::Ints(Ints{2}), Value::Ints(Ints{1}), Value::Int(n)});
    RefusedOp("_as_strided", {x_}, {Value::Ints(Ints{2}), Value::Ints(Ints{n}), Value::Int(0)});
    RefusedOp("_as_strided", {x_}, {Value::Ints(Ints{n}), Value::Ints(Ints{1}), Value::Int(0)});
    RefusedOp("chunk", {x_}, {Value::Int(n > 0 ? 0 : n), Value::Int(0)}, 1);
    RefusedOp("cumsum", {x_}, {Value::Int(n == -1 ? 2 : n)});
  }
  for (double step : {0.0, -1.0, std::nan("")}) RefusedOp("arange", {}, {Value::Float(0), Value::Float(5), Value::Float(step)});
  RefusedOp("arange", {}, {Value::Float(0), Value::Float(1e30), Value::Float(1)});
  RefusedOp("arange", {}, {Value::Int(kMin), Value::Int(kMax), Value::Int(1)});
  RefusedOp("linspace", {}, {Value::Float(0), Value::Float(1), Value::Int(kHuge)});
}

TEST_F(MalformedTest, HandlesThatHoldNothing) {
  for (Handle unknown : {Handle{999}, Handle{1} << 40, (Handle{1} << 53) - 1, Handle{1} << 53, UINT64_MAX}) {
    EXPECT_THAT((RefusedOp("neg", {unknown})), HasSubstr("no tensor has the handle"));
    v1::Command read;
    read.set_kind(v1::Command::KIND_READ);
    read.add_inputs(unknown);
    EXPECT_EQ(Refused(read).code(), absl::StatusCode::kNotFound);
    for (Kind kind : {v1::Command::KIND_REQUIRES_GRAD, v1::Command::KIND_CLEAR_GRAD, v1::Command::KIND_SET_GRAD,
                      v1::Command::KIND_BACKWARD, v1::Command::KIND_GRAD}) {
      v1::Command command;
      command.set_kind(kind);
      command.add_inputs(unknown);
      EXPECT_EQ(Refused(command).code(), absl::StatusCode::kNotFound);
    }
  }
  client_.Release({999, 0, UINT64_MAX});  // to release nothing is no error
  EXPECT_EQ(client_.events.errors_size(), 0);
}

TEST_F(MalformedTest, HandlesThatMayNotBeNamed) {
  const Handle next = client_.NewHandle();
  for (Handle bad : {Handle{0}, x_, w_, Handle{1} << 53, UINT64_MAX, next + (Handle{1} << 23)}) {
    SCOPED_TRACE(bad);
    v1::Command command = client_.Command("neg", {x_});
    command.add_outputs(bad);
    const bool taken = bad == x_ || bad == w_;
    client_.Run(command);
    EXPECT_THAT(Words(client_.Error()), HasSubstr(taken ? "is not new" : bad > next && bad < Handle{1} << 53 ? "too far" : "out of range"));
    EXPECT_EQ(client_.Holds(bad), taken);
    v1::Command write = TestClient::WriteCommand(bad, {1}, DType::kFloat32, "1234");
    client_.Run(write);
    EXPECT_FALSE(client_.Error().ok());
  }
  EXPECT_THAT(client_.Values(x_), ElementsAre(1, 2, 3, 4, 5, 6));
  // One name for two results, and names that fall.
  v1::Command command = client_.Command("max.dim", {x_}, {Value::Int(0), Value::Bool(false)});
  const Handle a = client_.NewHandle(), b = client_.NewHandle();
  command.add_outputs(b);
  command.add_outputs(b);
  client_.Run(command);
  EXPECT_THAT(Words(client_.Error()), HasSubstr("is not new"));
  command.clear_outputs();
  const Handle c = client_.NewHandle(), d = client_.NewHandle();
  command.add_outputs(d);
  command.add_outputs(c);
  client_.Run(command);
  EXPECT_THAT(Words(client_.Error()), HasSubstr("is not new"));
  // A released handle is not named again.
  client_.Release({y_});
  command = client_.Command("neg", {x_});
  command.add_outputs(y_);
  client_.Run(command);
  EXPECT_FALSE(client_.Error().ok());
  EXPECT_FALSE(client_.Holds(y_));
  (void)a;
}

TEST_F(MalformedTest, DTypesAndDevices) {
  for (int dtype : {0, 11, 255, 256 + 9, -1, 1 << 30}) {
    SCOPED_TRACE(dtype);
    v1::Command command = TestClient::WriteCommand(client_.NewHandle(), {1}, DType::kFloat32, "1234");
    command.set_dtype(static_cast<v1::DType>(dtype));
    EXPECT_THAT(Words(Refused(command)), HasSubstr("no dtype has the number"));
    v1::Command preset;
    preset.set_kind(v1::Command::KIND_DEFAULT_DTYPE);
    preset.set_dtype(static_cast<v1::DType>(dtype));
    (void)Refused(preset);
    EXPECT_EQ(client_.executor.context().default_float, DType::kFloat32);
  }
  v1::Command preset;
  preset.set_kind(v1::Command::KIND_DEFAULT_DTYPE);
  preset.set_dtype(v1::D_TYPE_INT64);
  (void)Refused(preset);
  for (uint32_t device : {1u, 255u, 256u, UINT32_MAX}) {
    SCOPED_TRACE(device);
    v1::Command command = TestClient::WriteCommand(client_.NewHandle(), {1}, DType::kFloat32, "1234");
    command.set_device(device);
    EXPECT_THAT(Words(Refused(command)), HasSubstr("no device"));
    const std::vector<Value> attrs = {Value::Ints(Ints{2}), Value::Int(0), Value(), Value::Device(device)};
    EXPECT_THAT((RefusedOp("full", {}, attrs)), HasSubstr("no device"));
    EXPECT_THAT((RefusedOp("_to_copy", {x_}, {Value(), Value::Device(device)})), HasSubstr("no device"));
  }
}

TEST_F(MalformedTest, DataOfAnotherLength) {
  for (size_t bytes : {0u, 1u, 11u, 13u, 1000u}) {
    const v1::Command command = TestClient::WriteCommand(client_.NewHandle(), {3}, DType::kFloat32, std::string(bytes, 'x'));
    EXPECT_THAT(Words(Refused(command)), HasSubstr("a write of 12 bytes brought"));
  }
  (void)Refused(TestClient::WriteCommand(client_.NewHandle(), {0}, DType::kFloat32, "1234"));
  v1::Command none = TestClient::WriteCommand(client_.NewHandle(), {1}, DType::kFloat32, "1234");
  none.clear_outputs();
  EXPECT_THAT(Words(Refused(none)), HasSubstr("a write names one handle"));
  v1::Command two = TestClient::WriteCommand(client_.NewHandle(), {1}, DType::kFloat32, "1234");
  two.add_outputs(client_.NewHandle());
  EXPECT_THAT(Words(Refused(two)), HasSubstr("a write names one handle"));
}

TEST_F(MalformedTest, Flags) {
  for (uint32_t flags : {128u, 256u, 0x80000000u, UINT32_MAX}) {
    v1::Command command = client_.Command("neg", {x_});
    command.set_flags(flags);
    command.add_outputs(client_.NewHandle());
    EXPECT_THAT(Words(Refused(command)), HasSubstr("unknown flags"));
    v1::Command fence;
    fence.set_kind(v1::Command::KIND_FENCE);
    fence.set_flags(flags);
    (void)Refused(fence);
  }
  v1::Command command = client_.Command("matmul", {x_, x_});
  command.set_flags(v1::COMMAND_FLAG_IN_PLACE);
  EXPECT_THAT(Words(Refused(command)), HasSubstr("matmul has no in-place form"));
  command = client_.Command("mul", {2, x_});
  command.set_flags(v1::COMMAND_FLAG_IN_PLACE);
  EXPECT_THAT(Words(Refused(command)), HasSubstr("self must be a tensor"));
  command = client_.Command("fill_", {w_, 1});
  command.set_flags(v1::COMMAND_FLAG_IN_PLACE | v1::COMMAND_FLAG_RECORD);
  EXPECT_THAT(Words(Refused(command)), HasSubstr("a leaf Variable that requires grad"));
}

TEST_F(MalformedTest, ReadsWithoutOneHandle) {
  v1::Command read;
  read.set_kind(v1::Command::KIND_READ);
  EXPECT_THAT(Words(Refused(read)), HasSubstr("a read names one handle"));
  read.add_inputs(x_);
  read.add_inputs(x_);
  EXPECT_THAT(Words(Refused(read)), HasSubstr("a read names one handle"));
  v1::Command none;
  none.set_kind(v1::Command::KIND_READ);
  none.add_inputs(0);
  (void)Refused(none);
}

TEST_F(MalformedTest, GradientCommands) {
  const auto command = [](Kind kind, const std::vector<Handle>& inputs, const std::vector<Handle>& outputs, const Ints& sizes = {}) {
    v1::Command c;
    c.set_kind(kind);
    for (Handle h : inputs) c.add_inputs(h);
    for (Handle h : outputs) c.add_outputs(h);
    for (int64_t s : sizes) c.add_sizes(s);
    return c;
  };
  constexpr Kind kBackward = v1::Command::KIND_BACKWARD, kGrad = v1::Command::KIND_GRAD;
  (void)Refused(command(kBackward, {}, {}));
  (void)Refused(command(kBackward, {0, 0}, {}));
  (void)Refused(command(kBackward, {y_, 0, 0}, {}));
  EXPECT_THAT(Words(Refused(command(kBackward, {y_, 0}, {}))), HasSubstr("only for scalar outputs"));
  EXPECT_THAT(Words(Refused(command(kBackward, {y_, w_}, {}))), HasSubstr("Mismatch in shape"));
  EXPECT_THAT(Words(Refused(command(kBackward, {x_, x_}, {}))), HasSubstr("does not require grad"));
  (void)Refused(command(kBackward, {y_, x_}, {w_}));
  EXPECT_THAT(Words(Refused(command(kBackward, {y_, x_}, {999, client_.NewHandle()}))), HasSubstr("no tensor has the handle 999"));
  // A gradient's name that is taken must not be noticed after the work.
  v1::Command taken = command(kBackward, {y_, x_}, {w_, x_});
  client_.Run(taken);
  EXPECT_THAT(Words(client_.Error()), HasSubstr("is not new"));
  EXPECT_EQ(rt::AutogradMeta::Of(client_.executor.tensors().Find(w_).tensor).grad, nullptr);

  for (const Ints& sizes : {Ints{}, Ints{0}, Ints{-1}, Ints{2}, Ints{kMax}, Ints{kMin}, Ints{1, 1}}) {
    (void)Refused(command(kGrad, {y_, x_, w_}, {client_.NewHandle()}, sizes));
  }
  (void)Refused(command(kGrad, {y_, x_, w_}, {}, {1}));
  (void)Refused(command(kGrad, {0, x_, w_}, {client_.NewHandle()}, {1}));
  (void)Refused(command(kGrad, {y_, x_, 0}, {client_.NewHandle()}, {1}));
  EXPECT_THAT(Words(Refused(command(kGrad, {y_, x_, x_}, {client_.NewHandle()}, {1}))), HasSubstr("does not require grad"));

  EXPECT_THAT(Words(Refused(command(v1::Command::KIND_SET_GRAD, {w_}, {}))), HasSubstr("takes a leaf and a gradient"));
  EXPECT_THAT(Words(Refused(command(v1::Command::KIND_SET_GRAD, {w_, x_}, {}))), HasSubstr("different size"));
  (void)Refused(command(v1::Command::KIND_SET_GRAD, {w_, 0}, {}));
  // One of several that cannot: none of them changes.
  const Handle plain = client_.Write({1}, {1});
  v1::Command require = command(v1::Command::KIND_REQUIRES_GRAD, {plain, index_}, {});
  require.set_flags(v1::COMMAND_FLAG_REQUIRES_GRAD);
  EXPECT_THAT(Words(Refused(require)), HasSubstr("only Tensors of floating point"));
  EXPECT_FALSE(rt::RequiresGrad(client_.executor.tensors().Find(plain).tensor));
  EXPECT_THAT(Words(Refused(command(v1::Command::KIND_REQUIRES_GRAD, {y_}, {}))), HasSubstr("leaf variables"));
  // The graph is as it was.
  std::vector<Handle> grads;
  ASSERT_TRUE(client_.Backward(client_.Op("sum", {y_}, {Value(), Value::Bool(false)}), {w_}, &grads).ok());
  EXPECT_THAT(client_.Values(grads[0]), ElementsAre(5, 7, 9));
}

TEST_F(MalformedTest, GradientsThatDoNotFit) {
  const auto ints = [](Ints v) { return Value::Ints(std::move(v)); };
  const std::vector<Value> slice = {ints({5, 3}), Value::Int(0), Value::Int(1), Value::Int(4), Value::Int(2)};
  EXPECT_THAT(client_.Values(client_.Op("_slice_backward", {x_}, slice)), ::testing::SizeIs(15));
  client_.Release({client_.last_handle()});
  for (const int64_t dim : {int64_t{2}, int64_t{1} << 31, kHuge, kMin}) {
    std::vector<Value> bad = slice;
    bad[1] = Value::Int(dim);
    EXPECT_THAT(RefusedOp("_slice_backward", {x_}, bad), HasSubstr("Dimension out of range"));
  }
  EXPECT_THAT(RefusedOp("_slice_backward", {w_}, slice), HasSubstr("grad has size [3], expected [2, 3]"));
  // A number counts as one index; there is nothing to add.
  const Handle number = client_.WriteInts({0}, {}), none = client_.Write({}, {0});
  EXPECT_THAT(RefusedOp("scatter_add", {w_, number, none}, {Value::Int(0)}), HasSubstr("to be smaller"));
}

TEST_F(MalformedTest, FusedSteps) {
  const Handle grad = client_.Write({1, 1, 1}, {3}), ints = client_.WriteInts({1, 2, 3}, {3});
  const auto attrs = [](int64_t groups, double momentum) {
    return std::vector<Value>{Value::Int(groups), Value::Float(1), Value::Float(momentum), Value::Float(0),
                              Value::Float(0),    Value::Bool(false), Value::Bool(false), Value::Bool(false)};
  };
  for (int64_t groups : {kMin, int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{3}, int64_t{5}, kMax}) {
    SCOPED_TRACE(groups);
    RefusedOp("_sgd_step_", {w_, grad}, attrs(groups, 0), 0);
  }
  EXPECT_THAT((RefusedOp("_sgd_step_", {}, attrs(2, 0), 0)), HasSubstr("takes at least one tensor"));
  RefusedOp("_sgd_step_", {w_, x_}, attrs(2, 0), 0);
  RefusedOp("_sgd_step_", {w_, ints}, attrs(2, 0), 0);
  RefusedOp("_sgd_step_", {ints, ints}, attrs(2, 0), 0);
  RefusedOp("_sgd_step_", {w_, Handle{0}}, attrs(2, 0), 0);
  EXPECT_THAT((RefusedOp("_sgd_step_", {w_, grad}, attrs(2, 0.9), 0)), HasSubstr("momentum needs its buffers"));
  EXPECT_EQ(client_.Version(w_), 0u);
}

}  // namespace
}  // namespace telensor::server
