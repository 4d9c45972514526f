"""Reads which pods this node's kubelet runs and which GPUs it gave them; never asks the API server."""
