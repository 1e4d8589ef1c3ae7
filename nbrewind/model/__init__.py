"""What NBRewind writes down: records, versions, manifests, reports. Data only."""
