"""Names and dataflow of cells, validity of records, forecasts and figures."""
