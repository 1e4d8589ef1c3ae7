"""PyTorch."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_NET = "torch.manual_seed(0); net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))"
_STEP = "o.zero_grad(); net(torch.ones(2, 3)).sum().backward(); o.step()"

LIBRARY = Library(
    "PyTorch",
    requires=("torch",),
    prelude="import torch, torch.nn as nn",
    cases=(
        Case("Tensor", "x = torch.arange(6.0).reshape(2, 3)", "print(x)", "x[0, 0] = 9"),
        Case("Tensor, view", "a = torch.arange(6.0); x = a[2:5]", "print(x, a)", "a[3] = 9"),
        Case(
            "Tensor, transposed",
            "a = torch.arange(6.0).reshape(2, 3); x = a.T",
            "print(x, x.stride())",
            "a[0, 1] = 9",
        ),
        Case(
            "Tensor over an array",
            "import numpy as np\na = np.zeros(3); x = torch.from_numpy(a)",
            "print(x, a)",
            "a[1] = 9",
            recomputed="two libraries share one memory",
        ),
        Case(
            "Tensor with a gradient",
            "x = torch.ones(2, requires_grad=True); (x * 2).sum().backward()",
            "print(x, x.grad)",
            "x.grad.zero_()",
        ),
        Case(
            "Tensor with a graph",
            "w = torch.ones(2, requires_grad=True); x = (w * 2).sum()",
            "print(x)",
            "x.backward(); x = x * 2",
            recomputed="the graph it was computed by",
        ),
        Case(
            "Tensor of half floats",
            "x = torch.ones(2, dtype=torch.bfloat16)",
            "print(x)",
            "x[0] = 9",
        ),
        Case(
            "Tensor of complex numbers",
            "x = torch.ones(2, dtype=torch.complex64)",
            "print(x)",
            "x[0] = 9j",
        ),
        Case("Tensor, sparse", "x = torch.eye(2).to_sparse()", "print(x)", "x.mul_(2)"),
        Case(
            "Tensor, compressed",
            "x = torch.eye(2).to_sparse_csr()",
            "print(x)",
            "x.values()[0] = 5",
        ),
        Case(
            "Tensor, quantised",
            "x = torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8)",
            "print(x)",
            "x.fill_(0.5)",
            recomputed="it is pickled with an address",
        ),
        Case("Parameter", "x = nn.Parameter(torch.ones(2))", "print(x)", "x.data[0] = 5"),
        Case(
            "Module",
            f"{_NET}; x = net",
            "print(x(torch.ones(1, 3)).detach().numpy().round(5))",
            "x[0].weight.data[0] = 5",
        ),
        Case("Module, its mode", f"{_NET}; x = net", "print(x.training)", "x.eval()"),
        Case(
            "Module of the notebook",
            "torch.manual_seed(0)\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = nn.Linear(2, 1); self.register_buffer('b', torch.ones(1))\n    def forward(self, v): return self.one(v) + self.b\nx = Net()",
            "print(x(torch.ones(1, 2)).detach().numpy().round(5))",
            "x.b[0] = 7",
        ),
        Case(
            "Module with tied weights",
            "x = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)]); x[1].weight = x[0].weight; nn.init.ones_(x[0].weight)",
            "print(x[1].weight, x[0].weight is x[1].weight)",
            "x[0].weight.data[0, 0] = 5",
        ),
        Case(
            "Module with batch normalisation",
            "x = nn.BatchNorm1d(2)",
            "print(x.running_mean, x.num_batches_tracked)",
            "x(torch.tensor([[1.0, 2], [3, 4]]))",
        ),
        Case(
            "Module, recurrent",
            "torch.manual_seed(0); x = nn.LSTM(2, 3)",
            "print(x(torch.ones(1, 1, 2))[0].detach().numpy().round(5))",
            "x.weight_ih_l0.data.zero_()",
            varies="equal texts in it may be one object or two",
        ),
        Case(
            "state dictionary",
            f"{_NET}; x = net.state_dict()",
            "print({k: v.shape for k, v in x.items()}, x['0.bias'].data_ptr() == net[0].bias.data_ptr())",
            "x.popitem()",
        ),
        Case(
            "SGD",
            f"{_NET}; x = o = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)\n{_STEP}",
            "print(x.param_groups[0]['lr'], len(x.state), x.param_groups[0]['params'][0] is net[0].weight)",
            "x.param_groups[0]['lr'] = 5",
            varies="equal texts in it may be one object or two",
        ),
        Case(
            "Adam",
            f"{_NET}; x = o = torch.optim.Adam(net.parameters())\n{_STEP}",
            "print([s['step'].item() for s in x.state.values()], net[0].bias.detach().numpy().round(5))",
            _STEP,
            varies="equal texts in it may be one object or two",
        ),
        Case(
            "scheduler",
            f"{_NET}; o = torch.optim.SGD(net.parameters(), 0.1); x = torch.optim.lr_scheduler.StepLR(o, 1)",
            "print(x.last_epoch, o.param_groups[0]['lr'], x.optimizer is o)",
            "o.step(); x.step()",
            varies="equal texts in it may be one object or two",
        ),
        Case(
            "scheduler of the notebook",
            f"{_NET}; o = torch.optim.SGD(net.parameters(), 0.1); x = torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1))",
            "print(x.last_epoch, o.param_groups[0]['lr'])",
            "o.step(); x.step()",
            varies="equal texts in it may be one object or two",
        ),
        Case(
            "TensorDataset",
            "from torch.utils.data import TensorDataset\nx = TensorDataset(torch.ones(4, 2))",
            "print(len(x), x[0])",
            "x.tensors[0][0] = 5",
        ),
        Case(
            "DataLoader",
            "from torch.utils.data import DataLoader\nx = DataLoader(range(8), 3)",
            "print([b.tolist() for b in x], x.drop_last)",
            "x.dataset_note = 1; x.__dict__['drop_last'] = True",
        ),
        Case(
            "DataLoader, shuffled",
            "from torch.utils.data import DataLoader\nx = DataLoader(range(8), 3, shuffle=True, generator=torch.Generator().manual_seed(3))",
            "print(x.generator.get_state().sum().item())",
            "for b in x: pass",
        ),
        Case(
            "Generator",
            "x = torch.Generator().manual_seed(1)",
            "print(x.get_state().sum().item())",
            "torch.rand(2, generator=x)",
        ),
        Case(
            "distribution",
            "x = torch.distributions.Normal(0.0, 1.0)",
            "print(x.mean, x.scale)",
            "x.scale = torch.tensor(3.0)",
        ),
        Case(
            "scripted module",
            "x = torch.jit.script(nn.ReLU())",
            "print(x(torch.tensor(-1.0)))",
            recomputed="a compiled module",
        ),
        Case(
            "hooked module",
            "calls = []\ndef hook(m, i, o): calls.append(1)\nx = nn.ReLU(); x.register_forward_hook(hook)",
            "print(len(calls), len(x._forward_hooks))",
            "x._forward_hooks.clear()",
            varies="hooks are numbered",
        ),
        Case("dtype and device", "x = (torch.float16, torch.device('cpu'))", "print(x)"),
        Case("Size", "x = torch.ones(2, 3).shape", "print(x, type(x).__name__)"),
    ),
)
