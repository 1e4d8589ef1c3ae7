"""Astropy."""

from __future__ import annotations

from tests.libraries.case import Case, Library

LIBRARY = Library(
    "Astropy",
    requires=("astropy",),
    prelude="import numpy as np, astropy.units as u",
    cases=(
        Case("Quantity", "x = [1, 2] * u.km", "print(x, x.to(u.m))", "x[0] = 9 * u.m"),
        Case("unit", "x = u.km / u.s", "print(x, x == u.m / u.ms)", fills="it fills caches"),
        Case(
            "Time",
            "from astropy.time import Time\nx = Time(['2020-01-01', '2021-01-01'], scale='utc')",
            "print(x, x.format)",
            "x.format = 'jd'",
        ),
        Case(
            "SkyCoord",
            "from astropy.coordinates import SkyCoord\nx = SkyCoord([1, 2], [3, 4], unit='deg')",
            "print(x.ra.deg, x.dec.deg)",
            "x[0] = SkyCoord(9, 9, unit='deg')",
            fills="it fills caches",
            varies="its frame fills caches as it is made",
        ),
        Case(
            "Angle",
            "from astropy.coordinates import Angle\nx = Angle([1, 2], 'deg')",
            "print(x.to_string())",
            "x[0] = 5 * u.deg",
        ),
        Case(
            "Table",
            "from astropy.table import Table\nx = Table({'a': [1, 2], 's': ['u', 'v']}, meta={'m': 1})",
            "print(x, x.meta)",
            "x['a'][0] = 9",
        ),
        Case(
            "QTable",
            "from astropy.table import QTable\nx = QTable({'a': [1, 2] * u.m})",
            "print(x)",
            "x['b'] = [1, 2]",
        ),
        Case(
            "Column",
            "from astropy.table import Column\nx = Column([1, 2], name='n', unit='m')",
            "print(x, x.unit)",
            "x[0] = 5",
        ),
        Case(
            "HDUList",
            "from astropy.io import fits\nx = fits.HDUList([fits.PrimaryHDU(np.eye(2))])",
            "print(x[0].data, list(x[0].header))",
            "x[0].header['K'] = 1",
        ),
        Case(
            "Header",
            "from astropy.io import fits\nx = fits.Header({'A': 1})",
            "print(repr(x))",
            "x['B'] = 2",
            fills="cards are written when asked for",
        ),
        Case(
            "HDUList of a file",
            "from astropy.io import fits\nx = fits.open('f.fits')",
            "print(x[0].data)",
            "x[0].header['K'] = 1; x[0].data = x[0].data * 2",
            recomputed="an open file",
            prepare="from astropy.io import fits\nfits.PrimaryHDU(np.eye(2)).writeto('f.fits', overwrite=True)",
        ),
        Case(
            "WCS",
            "from astropy.wcs import WCS\nx = WCS(naxis=2)",
            "print(x.wcs.crpix)",
            "x.wcs.crpix = [5, 5]",
        ),
        Case(
            "model",
            "from astropy.modeling.models import Gaussian1D\nx = Gaussian1D(1, 2, 3)",
            "print(x(2.5), x.mean.value)",
            "x.mean = 5",
        ),
        Case(
            "cosmology",
            "from astropy.cosmology import FlatLambdaCDM\nx = FlatLambdaCDM(70, 0.3)",
            "print(x.age(0).round(4))",
            fills="it fills caches",
        ),
        Case("constant", "import astropy.constants as c\nx = c.c", "print(x)"),
    ),
)
