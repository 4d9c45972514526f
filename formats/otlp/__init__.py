"""Windows as messages of the OpenTelemetry protocol (OTLP): metrics, and problems as log records."""
