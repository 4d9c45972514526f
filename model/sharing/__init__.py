"""Which tenants use which GPU: where calls ran, how tenants share a GPU, and what each tenant did on it."""
