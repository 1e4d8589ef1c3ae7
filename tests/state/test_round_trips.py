"""What is captured in one session is the same thing when another session restores it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbrewind.model.records import ExecutionRecord
from nbrewind.testing.memory_store import MemoryStore
from nbrewind.testing.oracle import run_with_engine
from nbrewind_analysis.book import RecordBook

CASES: dict[str, tuple[str, str]] = {
    # name: (what the first cell makes, what must hold after a restore)
    "numbers": (
        "a=1; b=2**70; c=-0.0; d=float('nan'); e=1j",
        "str(c)=='-0.0' and d!=d and b==2**70",
    ),
    "nan by identity": (
        "n=float('nan'); l=[n,1.0]; import math; m=[math.nan]; d={n:1}",
        "n in l and d[n]==1 and math.nan in m and float('nan') not in l",
    ),
    "numpy's nan": ("import numpy as np; l=[np.nan]; d={np.nan:2}", "np.nan in l and d[np.nan]==2"),
    "texts": ("a='x'; b=b'y'; c=bytearray(b'z')", "(a, b, c) == ('x', b'y', bytearray(b'z'))"),
    "lone surrogate": ("a='\\ud800'", "a == '\\ud800'"),
    "none is a value": ("a=None", "a is None"),
    "nested containers": ("a=[1,(2,{3:[4]}),{5}]", "a == [1,(2,{3:[4]}),{5}]"),
    "list in itself": ("a=[]; a.append(a)", "a[0] is a"),
    "dict in itself": ("a={}; a['me']=a", "a['me'] is a"),
    "shared list": ("a=[1]; b=[a,a]; c={'k':a}", "b[0] is a and b[1] is a and c['k'] is a"),
    "one object, two names": ("a=[1]; b=a", "a is b"),
    "equal but apart": ("a=[1]; b=[1]", "a == b and a is not b"),
    "order of a dict": ("a={'z':1,'a':2}", "list(a) == ['z','a']"),
    "collections": (
        "import collections as q; a=q.Counter('aab'); b=q.defaultdict(list,{1:[2]});"
        "c=q.deque([1],3); d=q.OrderedDict(x=1); e=q.ChainMap({1:2})",
        "a['a']==2 and b[9]==[] and c.maxlen==3 and d=={'x':1} and e[1]==2",
    ),
    "dates": (
        "import datetime as q; a=q.datetime(2020,1,1,tzinfo=q.timezone.utc)",
        "a.year==2020 and a.utcoffset() == q.timedelta(0)",
    ),
    "exact numbers": (
        "from decimal import Decimal as D; from fractions import Fraction as F; a=D('1.10'); b=F(1,3)",
        "str(a)=='1.10' and b*3==1",
    ),
    "paths and patterns": (
        "import pathlib,re; a=pathlib.Path('x/y'); b=re.compile('a+',re.I)",
        "a.name=='y' and b.match('AA')",
    ),
    "generator of random numbers": (
        "import random; a=random.Random(3); x=a.random()",
        "a.random()==(lambda r:(r.random(),r.random())[1])(random.Random(3))",
    ),
    "exception": ("a=ValueError('x',3)", "type(a) is ValueError and a.args==('x',3)"),
    "function": ("k=2\ndef f(x,*,y=3): return x*y*k", "f(2)==12 and f.__globals__ is globals()"),
    "function sees rebinding": ("k=2\ndef f(): return k", "[globals().update(k=5), f()][1]==5"),
    "annotations and doc": (
        "def f(x: int) -> str:\n    'doc'\n    return ''",
        "f.__doc__=='doc' and f.__annotations__=={'x':int,'return':str}",
    ),
    "recursion": ("def f(n): return 1 if n<2 else n*f(n-1)", "f(5)==120"),
    "default argument state": (
        "def f(x=[]):\n    x.append(1)\n    return len(x)\nf()",
        "f()==2",
    ),
    "function attributes": ("def f(): pass\nf.calls=[1]", "f.calls==[1]"),
    "lambda": ("k=3; f=lambda x: x+k", "f(1)==4"),
    "closures over one cell": (
        "def make():\n    n=0\n    def up():\n        nonlocal n\n        n+=1\n        return n\n"
        "    def get(): return n\n    return up,get\nup,get=make(); up()",
        "up()==2 and get()==2",
    ),
    "recursive closure": (
        "def make():\n    def f(n): return 1 if n<2 else n*f(n-1)\n    return f\ng=make()",
        "g(4)==24",
    ),
    "function held elsewhere": (
        "def f(): return 1\ntable={'f':f}; import functools; p=functools.partial(f)",
        "table['f'] is f and p.func is f",
    ),
    "decorator": (
        "import functools\ndef deco(g):\n    @functools.wraps(g)\n    def inner(*a): return g(*a)+1\n"
        "    return inner\n@deco\ndef f(x): return x",
        "f(1)==2 and f.__wrapped__(1)==1 and f.__name__=='f'",
    ),
    "class": (
        "class A:\n    n=1\n    def __init__(self): self.v=2\n    def m(self): return self.v+self.n\na=A()",
        "a.m()==3 and type(a) is A and isinstance(a, A)",
    ),
    "class attribute shared": (
        "class A:\n    items=[]\na=A(); b=A(); a.items.append(1)",
        "b.items==[1] and A.items is a.items",
    ),
    "inheritance and super": (
        "class A:\n    def m(self): return 1\nclass B(A):\n    def m(self): return super().m()+1\nb=B()",
        "b.m()==2 and B.__mro__==(B,A,object)",
    ),
    "old instance of a redefined class": (
        "class A:\n    def m(self): return 1\na=A()\nclass A:\n    def m(self): return 2\nb=A()",
        "a.m()==1 and b.m()==2 and not isinstance(a, A) and isinstance(b, A)",
    ),
    "two equal definitions": (
        "class A: pass\na=A()\nclass A: pass\nb=A()",
        "not isinstance(a, A) and isinstance(b, A)",
    ),
    "property, static and class methods": (
        "class A:\n    @property\n    def p(self): return 1\n    @staticmethod\n    def s(): return 2\n"
        "    @classmethod\n    def c(cls): return cls\na=A()",
        "a.p==1 and a.s()==2 and a.c() is A",
    ),
    "slots": (
        "class A:\n    __slots__=('x','y')\na=A(); a.x=[1]",
        "a.x==[1] and not hasattr(a,'y') and not hasattr(a,'__dict__')",
    ),
    "dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass P:\n    x: int = 0\n"
        "    y: list = dataclasses.field(default_factory=list)\np=P(3,[1])",
        "p==P(3,[1]) and P().y==[] and [f.name for f in dataclasses.fields(p)]==['x','y']",
    ),
    "frozen dataclass with slots": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass P:\n    x: int\np=P(3)",
        "p==P(3) and hash(p)==hash(P(3))",
    ),
    "enum": (
        "import enum\nclass C(enum.Enum):\n    RED=1\n    BLUE=2\n    def shout(self): return self.name+'!'\nc=C.RED",
        "c is C.RED and C(1) is c and c.shout()=='RED!' and list(C)==[C.RED,C.BLUE]",
    ),
    "flags": (
        "import enum\nclass F(enum.Flag):\n    A=enum.auto()\n    B=enum.auto()\nf=F.A|F.B",
        "f==F.A|F.B and F.A in f",
    ),
    "named tuples": (
        "import collections, typing\nP=collections.namedtuple('P','x y',defaults=[5])\np=P(1)\n"
        "class Q(typing.NamedTuple):\n    a: int\n    b: str = 'z'\nq=Q(1)",
        "p==(1,5) and type(p) is P and p.y==5 and q.b=='z' and type(q) is Q and Q._fields==('a','b')",
    ),
    "abstract class": (
        "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def m(self): ...\n"
        "class B(A):\n    def m(self): return 1\nb=B()",
        "b.m()==1 and isinstance(b,A) and A.__abstractmethods__==frozenset({'m'})",
    ),
    "metaclass of the notebook": (
        "class M(type):\n    def hi(cls): return cls.__name__\nclass A(metaclass=M): pass",
        "A.hi()=='A' and type(A) is M",
    ),
    "generic class": (
        "import typing\nT=typing.TypeVar('T')\nclass Box(typing.Generic[T]):\n"
        "    def __init__(self,x): self.x=x\nb=Box[int](3)",
        "b.x==3 and isinstance(b,Box)",
    ),
    "cached property": (
        "import functools\nclass A:\n    @functools.cached_property\n    def p(self): return [1]\na=A(); a.p",
        "a.p==[1] and 'p' in a.__dict__ and A().p==[1]",
    ),
    "bound method": ("class A:\n    def m(self): return self\na=A(); f=a.m", "f() is a"),
    "operators and callables": (
        "import operator; a=operator.itemgetter(1); b=len; c=str.upper; d=[].append.__class__",
        "a([1,2])==2 and b is len and c('x')=='X'",
    ),
    "closed files": (
        "import os\nwith open(os.devnull) as f: pass\nwith open(os.devnull,'rb') as b: pass\n"
        "w=open(os.devnull,'w'); w.close()",
        "f.closed and f.name==os.devnull and f.mode=='r' and b.closed and b.mode=='rb' and w.mode=='w'",
    ),
    "modules": ("import json, os.path as p", "json.dumps(1)=='1' and p.join('a','b')"),
    "arrays of the standard library": ("import array; a=array.array('d',[1.0])", "a[0]==1.0"),
    "numpy": (
        "import numpy as np; a=np.arange(6.).reshape(2,3); f=np.asfortranarray(a); z=np.array(3);"
        "e=np.empty((0,3)); b=np.array([True]); s=np.array(['a','bc']); c=np.float32(1.5)",
        "a[1,2]==5 and f.flags.f_contiguous and z.shape==() and e.shape==(0,3) and s[1]=='bc'"
        " and a.flags.owndata is False and f.flags.owndata and type(c) is np.float32",
    ),
    "numpy owner owns its data": (
        "import numpy as np; a=np.arange(4)",
        "a.flags.owndata and a.base is None",
    ),
    "numpy views": (
        "import numpy as np; a=np.arange(10.); v=a[2:5]; w=a.reshape(2,5).T; r=a[::-1]; d=a.view('i8')",
        "v.base is a and [a.__setitem__(2,99.), v[0]==99. and w[2,0]==99. and r[7]==99.][1]"
        " and np.shares_memory(d,a)",
    ),
    "numpy view of a deleted base": (
        "import numpy as np; a=np.arange(10.); v=a[2:5]; del a",
        "v.tolist()==[2.,3.,4.]",
    ),
    "numpy text, small and large, in any order": (
        "import numpy as np; a=np.array([['x','y'],['z',None]],dtype=object); b=a.T.copy(order='F');"
        "b.flags.writeable=False; c=np.array([str(i%7) for i in range(5000)],dtype=object);"
        "d=c[::2]; e=np.array('s',dtype=object); g=np.empty((0,3),dtype=object)",
        "a.tolist()==[['x','y'],['z',None]] and b.tolist()==[['x','z'],['y',None]]"
        " and b.flags.f_contiguous and not b.flags.writeable and c.base is None and d[1]=='2'"
        " and np.shares_memory(c,d) and e.item()=='s' and g.shape==(0,3)",
    ),
    "numpy text with holes": (
        "import numpy as np, pandas as pd; n=float('nan'); a=np.array([n,'x',np.nan,1.5],dtype=object);"
        "b=np.array([pd.NA,'x',pd.NaT],dtype=object); c=np.array([pd.NA,1.5],dtype=object)",
        "a[0] is n and a[2] is np.nan and a[3]==1.5 and b[0] is pd.NA and b[2] is pd.NaT"
        " and c[0] is pd.NA",
    ),
    "small arrays": (
        "import numpy as np; a=[np.arange(i) for i in range(3)]; b=np.zeros((2,3),order='F');"
        "c=np.arange(6).reshape(1,2,3).transpose(1,0,2).copy(order='K'); d=a[2][1:];"
        "e=np.array(['2020-01-01'],dtype='M8[D]'); b[0,1]=7; e.flags.writeable=False",
        "a[2].tolist()==[0,1] and b.flags.f_contiguous and b[0,1]==7 and c.tolist()==[[[0,1,2]],[[3,4,5]]]"
        " and np.shares_memory(d,a[2]) and str(e[0])=='2020-01-01' and not e.flags.writeable"
        " and a[2].flags.owndata and a[2].flags.writeable",
    ),
    "numpy objects": (
        "import numpy as np; x=[1]; a=np.array([x,None,'s'],dtype=object); v=a[:2]",
        "a[0] is x and v[0] is x and np.shares_memory(a,v)",
    ),
    "numpy structured, dates, read-only": (
        "import numpy as np; a=np.zeros(2,dtype=[('x','i4'),('y','f8')]); a['x']=7;"
        "d=np.array(['2020-01-01'],dtype='M8[D]'); r=np.arange(3); r.flags.writeable=False;"
        "b=np.broadcast_to(np.arange(3),(2,3))",
        "a['x'][1]==7 and str(d[0])=='2020-01-01' and not r.flags.writeable and b.shape==(2,3)"
        " and b.strides[0]==0",
    ),
    "numpy masked": (
        "import numpy as np; m=np.ma.array([1,2,3],mask=[0,1,0])",
        "m.sum()==4 and m.mask.tolist()==[False,True,False]",
    ),
    "numpy generator": (
        "import numpy as np; g=np.random.default_rng(1); x=g.random()",
        "g.random()==(lambda q:(q.random(),q.random())[1])(np.random.default_rng(1))",
    ),
    "generators behind modules": (
        "from random import random as f, choice as c; import numpy as np; g=np.random.rand; h=np.random.mtrand._rand",
        "f.__self__ is __import__('random')._inst is c.__self__ and h is np.random.mtrand._rand and g.__self__ is h",
    ),
    "torch's own generator": (
        "import torch; g=torch.default_generator; h=torch.Generator()",
        "g is torch.default_generator and h is not g",
    ),
    "settings that are objects": (
        "import os, sys, decimal, matplotlib as m, pandas as p; a=os.environ; b=sys.path; c=decimal.getcontext();"
        " d=m.rcParams; e=p.options; f=p.options.display; g=decimal.Context(prec=4)",
        "a is os.environ and b is sys.path and c is decimal.getcontext() and d is m.rcParams and e.d is p.options.d"
        " and f.d is p.options.display.d and g.prec==4",
    ),
    "count": (
        "import itertools; a=itertools.count(5); next(a); b=itertools.count(0.5, 2)",
        "next(a)==6 and next(b)==0.5 and next(b)==2.5",
    ),
    "pandas index of a frame": (
        "import pandas as pd; d=pd.DataFrame({'a':[1,2]}); i=d.index; l=[d.columns]",
        "d.index is i and l[0] is d.columns",
    ),
    "pandas": (
        "import pandas as pd; d=pd.DataFrame({'a':[1,2,3],'s':['x','y',None],'c':pd.Categorical(list('aba')),"
        "'t':pd.date_range('2020',periods=3)}); d.attrs['u']='m'; i=pd.MultiIndex.from_tuples([(1,2)])",
        "d.a.sum()==6 and d.s[1]=='y' and d.c.cat.categories.tolist()==['a','b'] and d.t.dt.year[0]==2020"
        " and d.attrs=={'u':'m'} and i[0]==(1,2)",
    ),
    "pandas copy-on-write from the series": (
        "import pandas as pd; d=pd.DataFrame({'a':[1,2,3]}); s=d['a']",
        "[s.__setitem__(0,99), d.a[0]==1 and s[0]==99][1]",
    ),
    "pandas copy-on-write from the frame": (
        "import pandas as pd; d=pd.DataFrame({'a':[1,2,3]}); s=d['a']; e=d[:]",
        "[d.__setitem__('a',0), d.iloc.__setitem__((0,0),5), s[0]==1 and e.a[0]==1 and d.a[0]==5][2]",
    ),
    "frame held twice": (
        "import pandas as pd; d=pd.DataFrame({'a':[1]}); e=d; l=[d]",
        "e is d and l[0] is d",
    ),
    "scikit-learn": (
        "from sklearn.linear_model import LinearRegression as L; m=L().fit([[0.],[1.]],[0.,2.])",
        "abs(m.predict([[3.]])[0]-6)<1e-9",
    ),
    "torch": (
        "import torch; a=torch.arange(6.).reshape(2,3); v=a[0]; m=torch.nn.Linear(2,2); m.tied=m.weight",
        "[a.__setitem__((0,0),9.), v[0]==9.][1].item() and m.tied is m.weight and m.weight.requires_grad",
    ),
}


def _records(store: MemoryStore) -> list[ExecutionRecord]:
    return [entry.record for entry in RecordBook(store).history().entries]


@pytest.mark.parametrize("case", CASES)
def test_restored_values_are_what_they_were(case: str, tmp_path: Path) -> None:
    made, holds = CASES[case]
    store = MemoryStore()
    run_with_engine([made], "audit", store, tmp_path)
    (record,) = _records(store)
    unstored = [sorted(group.variables) for group in record.writes.groups if group.manifest is None]
    assert not unstored
    replay = run_with_engine([made, f"print(bool({holds}))"], "replay", store, tmp_path)
    assert [report.action for report in replay.reports] == ["reused", "executed"], replay.errors
    assert replay.errors == ["", ""]
    assert b"True" in bytes(replay.outputs[1][0].content), replay.outputs
    assert not replay.warnings


@pytest.mark.parametrize("case", CASES)
def test_a_restored_value_is_captured_as_the_same_version(case: str, tmp_path: Path) -> None:
    """A read-only look at a value, restored or not, is no change of it."""
    made, _ = CASES[case]
    store = MemoryStore()
    names = "[repr(type(v)) for k, v in sorted(globals().items()) if not k.startswith('_')]"
    run_with_engine([made, f"{names};"], "audit", store, tmp_path)
    replay = run_with_engine([made, f"n = {names}"], "replay", store, tmp_path)
    assert replay.reports[1].action == "executed"
    assert replay.reports[1].writes == ["n"], replay.reports[1].writes
