// Every row of the generated table is what the runtime takes for granted.
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "proto/core/op_ids.h"
#include "proto/core/op_schema.h"

namespace telensor {
namespace {

const OpTable& Table() { return OpTable::Get(); }

TEST(OpTable, IdsAreInTheOrderOfNames) {
  EXPECT_GT(Table().size(), 200);
  EXPECT_NE(Table().fingerprint(), 0u);
  for (int i = 0; i < Table().size(); ++i) {
    const OpSchema& op = Table().at(i);
    EXPECT_EQ(op.id, i);
    if (i > 0) {
      EXPECT_LT(std::string(Table().at(i - 1).name), op.name);
    }
    EXPECT_EQ(Table().Find(op.name), &op);
  }
  EXPECT_EQ(Table().Find("no_such_op"), nullptr);
  EXPECT_EQ(Table().Find(""), nullptr);
  EXPECT_STREQ(Table().at(ops::add).name, "add");
  EXPECT_STREQ(Table().at(ops::max_dim).name, "max.dim");
}

TEST(OpTable, ParametersHaveTheirSlots) {
  for (int i = 0; i < Table().size(); ++i) {
    const OpSchema& op = Table().at(i);
    SCOPED_TRACE(op.name);
    EXPECT_EQ(op.num_inputs + op.num_attrs, op.num_params);
    EXPECT_LE(op.num_inputs, 32);  // input masks
    int inputs = 0, attrs = 0, lists = 0;
    std::set<std::string> names;
    for (int k = 0; k < op.num_params; ++k) {
      const Param& p = op.params[k];
      EXPECT_TRUE(names.insert(p.name).second) << p.name;
      if (IsTensorType(p.type)) {
        EXPECT_EQ(p.slot, inputs);
        EXPECT_EQ(op.input_params[inputs++], &p);
        if (p.type == ParamType::kTensorList) {
          ++lists;
          EXPECT_EQ(op.list_slot, p.slot);
        }
      } else {
        EXPECT_EQ(p.slot, attrs);
        EXPECT_EQ(op.attr_params[attrs++], &p);
      }
      EXPECT_LT(p.default_literal, 4096);
      if (p.default_literal < 0) continue;
      const Value& v = Table().literal(p.default_literal);
      EXPECT_TRUE(Table().IsLiteral(&v));
      if (p.length > 0 && !v.none()) {
        EXPECT_EQ(v.ints().size(), static_cast<size_t>(p.length)) << p.name;
      }
      if (v.none()) {
        EXPECT_TRUE(p.optional) << p.name;
      }
    }
    EXPECT_EQ(inputs, op.num_inputs);
    EXPECT_EQ(attrs, op.num_attrs);
    EXPECT_EQ(lists, op.list_slot >= 0 ? 1 : 0);
  }
}

TEST(OpTable, RulesNameWhatTheRowHas) {
  for (int i = 0; i < Table().size(); ++i) {
    const OpSchema& op = Table().at(i);
    SCOPED_TRACE(op.name);
    EXPECT_TRUE(op.num_shape_rules == 1 || op.num_shape_rules == op.num_outputs);
    EXPECT_TRUE(op.num_dtype_rules == 1 || op.num_dtype_rules == op.num_outputs);
    const auto check = [&op](const Rule& rule) {
      ASSERT_NE(rule.fn, nullptr);
      for (int k = 0; k < rule.num_args; ++k) {
        const RuleArg& arg = rule.args[k];
        EXPECT_GE(arg.index, 0);
        if (arg.kind == RuleArg::kInput) {
          EXPECT_LT(arg.index, op.num_inputs);
        }
        if (arg.kind == RuleArg::kAttr) {
          EXPECT_LT(arg.index, op.num_attrs);
        }
      }
    };
    for (int k = 0; k < op.num_shape_rules; ++k) check(op.shape_rules[k]);
    for (int k = 0; k < op.num_dtype_rules; ++k) check(op.dtype_rules[k]);
  }
}

TEST(OpTable, EveryRowCanRun) {
  for (int i = 0; i < Table().size(); ++i) {
    const OpSchema& op = Table().at(i);
    SCOPED_TRACE(op.name);
    EXPECT_EQ(op.returns_list, op.num_outputs < 0);
    switch (op.kind) {
      case OpKind::kView:
        EXPECT_EQ(op.kernel, nullptr);
        EXPECT_FALSE(op.formula.given());
        EXPECT_GE(op.num_inputs, 1);
        break;
      case OpKind::kRandom: EXPECT_NE(op.kernel, nullptr); break;
      case OpKind::kKernel:
        // `empty` and `empty_like` only allocate.
        EXPECT_TRUE(op.kernel != nullptr || op.formula.given() || std::string(op.base_name).substr(0, 5) == "empty");
        break;
    }
    EXPECT_FALSE(op.returns_list && op.kind != OpKind::kView);
    if (op.fused) {
      EXPECT_TRUE(op.kernel != nullptr && op.formula.given());
    }
    if (op.composite() && !op.has_inplace) {
      EXPECT_EQ(op.kernel, nullptr);
    }
    if (op.has_inplace || op.inplace_only) {
      EXPECT_NE(op.num_outputs > 1, true);
      EXPECT_GE(op.num_inputs, 1);
    }
    if (op.elementwise) {
      EXPECT_EQ(op.num_outputs, 1);
    }
    // What nobody can differentiate has no gradients, and a mask names inputs that are there.
    if (!op.differentiable) {
      EXPECT_EQ(op.num_grads, 0);
    }
    for (int g = 0; g < op.num_grads; ++g) {
      const GradFormula& grad = op.grads[g];
      EXPECT_TRUE(grad.formula.given());
      EXPECT_NE(grad.inputs, 0u);
      EXPECT_EQ((grad.inputs | grad.saved_inputs | grad.meta_inputs) >> op.num_inputs, 0u);
      const int outputs = op.num_outputs < 0 ? 32 : op.num_outputs;
      if (outputs < 32) {
        EXPECT_EQ((grad.saved_outputs | grad.meta_outputs) >> outputs, 0u);
      }
    }
    EXPECT_EQ(op.mutates >> op.num_inputs, 0u);
    const std::string dtypes = op.dtypes;
    EXPECT_TRUE(dtypes == "" || dtypes == "all" || dtypes == "number" || dtypes == "float" || dtypes == "int_bool")
        << dtypes;
  }
}

// Walks a formula: every index it holds must exist, or the evaluator would read past its arrays.
class FormulaChecker {
 public:
  FormulaChecker(const OpSchema& op, bool gradient) : op_(op), gradient_(gradient) {}

  void Check(const Formula& formula) {
    if (!formula.given()) return;
    for (int i = 0; i < formula.num_lets; ++i) {
      Visit(formula.lets[i], i);
    }
    Visit(formula.root, formula.num_lets);
  }

 private:
  void Visit(int index, int lets) {
    const Expr& e = Table().expr(index);
    for (int k = 0; k < e.count; ++k) {
      ASSERT_LT(Table().arg(e, k), index);  // arguments were compiled before, so there are no cycles
      Visit(Table().arg(e, k), lets);
    }
    switch (e.kind) {
      case ExprKind::kInput: EXPECT_LT(e.a, op_.num_inputs); break;
      case ExprKind::kAttr: EXPECT_LT(e.a, op_.num_attrs); break;
      case ExprKind::kGrad: EXPECT_TRUE(gradient_); break;
      case ExprKind::kOutput:
        EXPECT_TRUE(gradient_);
        EXPECT_LT(e.a, op_.num_outputs);
        break;
      case ExprKind::kLet: EXPECT_LT(e.a, lets); break;
      case ExprKind::kCall: {
        ASSERT_LT(e.a, Table().size());
        const OpSchema& callee = Table().at(e.a);
        EXPECT_EQ(e.count, callee.num_params) << callee.name;
        break;
      }
      case ExprKind::kItem: {
        ASSERT_EQ(e.count, 1);
        const Expr& call = Table().expr(Table().arg(e, 0));
        ASSERT_EQ(call.kind, ExprKind::kCall);
        EXPECT_LT(e.a, Table().at(call.a).num_outputs);
        break;
      }
      case ExprKind::kHelper:
        EXPECT_LE(e.a, static_cast<int>(Helper::kValueOf));
        EXPECT_GE(e.count, 1);
        break;
      case ExprKind::kCondition: EXPECT_EQ(e.count, 3); break;
      case ExprKind::kNegate:
      case ExprKind::kNot: EXPECT_EQ(e.count, 1); break;
      case ExprKind::kLiteral:
      case ExprKind::kList:
      case ExprKind::kTuple: break;
      default: EXPECT_EQ(e.count, 2);
    }
  }

  const OpSchema& op_;
  const bool gradient_;
};

TEST(OpTable, FormulasAreWellFormed) {
  for (int i = 0; i < Table().size(); ++i) {
    const OpSchema& op = Table().at(i);
    SCOPED_TRACE(op.name);
    FormulaChecker(op, false).Check(op.formula);
    for (int g = 0; g < op.num_grads; ++g) FormulaChecker(op, true).Check(op.grads[g].formula);
  }
}

// Composites end in kernels: none runs itself again, however far down.
TEST(OpTable, CompositesComeToAnEnd) {
  std::vector<int> state(Table().size(), 0);  // 1: being visited, 2: done
  struct Walk {
    std::vector<int>& state;
    void Op(int id) {
      const OpSchema& op = Table().at(id);
      if (state[id] == 2 || !op.formula.given()) return;
      ASSERT_NE(state[id], 1) << op.name << " runs itself";
      state[id] = 1;
      for (int i = 0; i < op.formula.num_lets; ++i) Expression(op.formula.lets[i]);
      Expression(op.formula.root);
      state[id] = 2;
    }
    void Expression(int index) {
      const Expr& e = Table().expr(index);
      for (int k = 0; k < e.count; ++k) Expression(Table().arg(e, k));
      if (e.kind == ExprKind::kCall) Op(e.a);
    }
  } walk{state};
  for (int i = 0; i < Table().size(); ++i) walk.Op(i);
}

}  // namespace
}  // namespace telensor
