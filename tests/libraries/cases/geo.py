"""Shapely, GeoPandas, pyproj."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Shapely, GeoPandas, pyproj",
    requires=("shapely", "geopandas", "pyproj"),
    prelude="import geopandas as gpd, pyproj, shapely, shapely.prepared; p = shapely.Point(0, 1)",
    cases=(
        Case("shapely.Point", "x = shapely.Point(1, 2)", "print(x, x.x, x == shapely.Point(1, 2))"),
        Case(
            "shapely.Polygon", "x = shapely.Polygon([(0, 0), (1, 0), (1, 1)])", "print(x, x.area)"
        ),
        Case(
            "shapely.MultiPoint",
            "x = shapely.MultiPoint([(0, 0), (1, 0)])",
            "print(x, len(x.geoms))",
        ),
        Case("shapely.STRtree", "x = shapely.STRtree([p])", "print(len(x), x.query(p))"),
        Case(
            "shapely.prepared",
            "x = shapely.prepared.prep(p)",
            "print(x.contains(p))",
            recomputed="it cannot be pickled",
        ),
        Case(
            "geopandas.GeoSeries",
            "x = gpd.GeoSeries([p])",
            "print(x, x.x[0])",
            "x[0] = shapely.Point(3, 4)",
        ),
        Case(
            "geopandas.GeoDataFrame",
            "x = gpd.GeoDataFrame({'a': [1]}, geometry=[p], crs=4326)",
            "print(x, x.crs.name, x.total_bounds)",
            "x.loc[0, 'a'] = 3",
        ),
        Case("pyproj.CRS", "x = pyproj.CRS(4326)", "print(x.name)"),
        Case(
            "pyproj.Transformer",
            "x = pyproj.Transformer.from_crs(4326, 3857)",
            "print(x.transform(0, 0))",
        ),
    ),
)
