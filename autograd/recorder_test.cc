#include "autograd/recorder.h"

#include <gmock/gmock.h>

#include "autograd/autograd_testing.h"

namespace telensor::rt {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RecorderTest : public ::testing::Test, public AutogradWorld {
 protected:
  static std::string NodeOf(const Tensor& t) {
    const AutogradMeta* meta = AutogradMeta::Find(t.get());
    return meta != nullptr && meta->grad_fn ? meta->grad_fn->Name() : "";
  }
};

TEST_F(RecorderTest, RecordsWhereAGradientWillBeWanted) {
  const Tensor x = Make({1}, {1}, true), plain = Make({1}, {1});
  EXPECT_EQ(NodeOf(Op("mul", {In(x), In(plain)})), "MulBackward0");
  EXPECT_EQ(NodeOf(Op("mul", {In(plain), In(plain)})), "");
  EXPECT_EQ(NodeOf(Op("gt", {In(x), In(plain)})), "") << "bools carry no gradient";
  EXPECT_EQ(NodeOf(Op("detach", {In(x)})), "");
  RecordingGuard guard(&recorder, false);
  EXPECT_EQ(NodeOf(Op("mul", {In(x), In(x)})), "");
}

TEST_F(RecorderTest, TheGuardPutsRecordingBack) {
  {
    RecordingGuard off(&recorder, false);
    RecordingGuard on(&recorder, true);
    EXPECT_TRUE(recorder.recording());
  }
  EXPECT_TRUE(recorder.recording());
  recorder.set_recording(false);
  { RecordingGuard on(&recorder, true); }
  EXPECT_FALSE(recorder.recording());
}

TEST_F(RecorderTest, SavesOnlyWhatFormulasRead) {
  const Tensor x = Make({1}, {1}, true);
  Tensor a = Make({2}, {1});
  const Tensor sum = Op("add", {In(x), In(a)});
  EXPECT_TRUE(a->unique()) << "add reads no input";
  const Tensor product = Op("mul", {In(x), In(a)});
  EXPECT_FALSE(a->unique()) << "mul's gradient for x reads a";
  Tensor b = Make({2}, {1});
  const Tensor other = Op("mul", {In(b), In(x)});
  EXPECT_FALSE(b->unique());
  // And not x itself, which only b's gradient would read.
  const Tensor leaf = Make({1}, {1}, true);
  Tensor result = Op("mul", {In(leaf), In(3.0)});
  result = nullptr;
  EXPECT_TRUE(leaf->unique()) << "a graph that is gone holds nothing";
}

TEST_F(RecorderTest, LeavesAreNotWrittenInPlace) {
  const Tensor x = Make({1, 2}, {2}, true);
  EXPECT_EQ(Do("add", {In(x), In(1.0)}).message(), "a leaf Variable that requires grad is being used in an in-place operation.");
  const Tensor view = Op("view", {In(x)}, {Value::Ints(std::vector<int64_t>{2, 1})});
  EXPECT_EQ(Do("add", {In(view), In(1.0)}).message(),
            "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  EXPECT_THAT(Values(x), ElementsAre(1, 2));
  EXPECT_EQ(x->storage()->version(), 0u);
  RecordingGuard guard(&recorder, false);
  EXPECT_TRUE(Do("add", {In(x), In(1.0)}).ok()) << "an optimizer may";
  EXPECT_THAT(Values(x), ElementsAre(2, 3));
  EXPECT_EQ(x->storage()->version(), 1u);
  EXPECT_EQ(NodeOf(x), "");
}

TEST_F(RecorderTest, AnInPlaceOpThatFailsLeavesTheHistoryAlone) {
  const Tensor x = Make({1, 2}, {2}, true);
  const Tensor y = Op("exp", {In(x)});
  EXPECT_FALSE(Do("add", {In(y), In(Make({1, 2, 3}, {3}))}).ok());
  EXPECT_EQ(NodeOf(y), "ExpBackward0");
  EXPECT_EQ(y->storage()->version(), 0u);
  ASSERT_TRUE(Do("add", {In(y), In(1.0)}).ok());
  EXPECT_EQ(NodeOf(y), "AddBackward0");
}

TEST_F(RecorderTest, ATensorBecomesAResultByAWriteWithGradients) {
  const Tensor x = Make({3}, {1}, true), y = Make({2}, {1});
  ASSERT_TRUE(Do("mul", {In(y), In(x)}).ok());
  EXPECT_TRUE(RequiresGrad(y.get()));
  ASSERT_TRUE(Backward(y).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(2)) << "what y was before";
}

TEST_F(RecorderTest, AViewSeesAWriteOfItsBase) {
  const Tensor x = Make({3, 4}, {2}, true), base = Make({1, 2}, {2});
  const Tensor view = Op("slice", {In(base)}, {Value::Int(0), Value::Int(0), Value::Int(1), Value::Int(1)});
  EXPECT_FALSE(RequiresGrad(view.get()));
  ASSERT_TRUE(Do("mul", {In(base), In(x)}).ok());
  EXPECT_TRUE(RequiresGrad(view.get()));
  ASSERT_TRUE(Backward(Sum(view)).ok());
  EXPECT_THAT(Values(GradOf(x)), ElementsAre(1, 0));
}

TEST_F(RecorderTest, LaterNodesHaveHigherNumbers) {
  const Tensor x = Make({1}, {1}, true);
  Tensor y = x;
  uint64_t last = 0;
  for (const char* op : {"exp", "tanh", "neg", "softplus", "softmax"}) {
    y = std::string(op) == "softmax" ? Op(op, {In(y)}, {Value::Int(0)}) : Op(op, {In(y)});
    const uint64_t sequence = AutogradMeta::Of(y.get()).grad_fn->sequence();
    EXPECT_GT(sequence, last) << op;
    last = sequence;
  }
}

TEST_F(RecorderTest, AFusedRowIsItsFormulaWhereItIsRecorded) {
  const Tensor x = Make({1, -1}, {2}, true), g = Make({1, 1}, {2}, true);
  const Tensor fused = Op("_silu_backward", {In(g), In(x)});
  EXPECT_NE(NodeOf(fused), "");
  RecordingGuard guard(&recorder, false);
  const Tensor plain = Op("_silu_backward", {In(g), In(x)});
  EXPECT_EQ(NodeOf(plain), "");
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(Values(fused)[i], Values(plain)[i], 1e-6);
}

TEST(NodeTest, ARingHoldsWhatLives) {
  NodeLink head, a, b;
  a.InsertBefore(&head);
  b.InsertBefore(&head);
  EXPECT_EQ(head.next, &a);
  EXPECT_EQ(a.next, &b);
  EXPECT_EQ(b.next, &head);
  a.Unlink();
  EXPECT_EQ(head.next, &b);
  a.Unlink();  // alone already
  b.Unlink();
  EXPECT_EQ(head.next, &head);
}

TEST(NodeTest, AChainIsDestroyedWithoutRecursion) {
  class Link final : public Node {
   public:
    Link(uint64_t n, int* left) : Node(n), left_(*left) { ++left_; }
    ~Link() override { --left_; }
    absl::StatusOr<GradList> Apply(Recorder*, GradList) override { return GradList(); }
    std::string Name() const override { return "Link"; }

   private:
    int& left_;
  };
  int left = 0;
  Ref<Node> chain;
  for (int i = 0; i < 1000000; ++i) {
    Ref<Node> next(new Link(i, &left));
    next->AddEdge({std::move(chain), 0});
    next->AddEdge({next->edges()[0].node, 0});
    chain = std::move(next);
  }
  EXPECT_EQ(left, 1000000);
  chain = nullptr;
  EXPECT_EQ(left, 0);
}

}  // namespace
}  // namespace telensor::rt
