"""What this node's kubelet says of its pods, over its own socket: the API server is never asked."""
