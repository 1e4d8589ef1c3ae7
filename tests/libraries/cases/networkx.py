"""networkx."""

from __future__ import annotations

from tests.libraries.case import Case, Library

_GRAPH = "print(sorted(x.edges), x.degree[0], len(x.adj), x.nodes[0])"

LIBRARY = Library(
    "networkx",
    requires=("networkx",),
    prelude="import networkx as nx",
    cases=(
        Case("Graph", "x = nx.path_graph(4)", _GRAPH, "x.add_edge(0, 3)"),
        Case("Graph, attributes of a node", "x = nx.path_graph(4)", _GRAPH, "x.nodes[0]['a'] = 1"),
        Case(
            "DiGraph",
            "x = nx.DiGraph([(0, 1), (1, 2)])",
            "print(x.succ[0], x.pred[1], x.in_degree[2])",
            "x.add_edge(0, 2)",
        ),
        Case(
            "MultiGraph",
            "x = nx.MultiGraph([(1, 2), (1, 2)])",
            "print(x.edges(keys=True))",
            "done = x.add_edge(1, 2)",
        ),
        Case(
            "Graph, frozen",
            "x = nx.freeze(nx.path_graph(4))",
            _GRAPH,
            "x.graph['a'] = 1; x.nodes[0]['b'] = 2",
        ),
        Case("EdgeView", "g = nx.path_graph(4); x = g.edges", "print(list(x))", "g.add_edge(0, 3)"),
        Case(
            "Graph used by algorithms",
            "x = nx.path_graph(4)",
            "print(nx.shortest_path(x, 0, 3), nx.density(x))",
            "x.add_edge(0, 3)",
        ),
        Case(
            "subclass of Graph",
            "class G(nx.Graph):\n    def __init__(self, *a): super().__init__(*a); self.more = [1]\nx = G([(0, 1)])",
            "print(x.edges, x.more)",
            "x.more.append(2)",
        ),
    ),
)
