"""Sends metrics and problems by the OpenTelemetry protocol (OTLP), and keeps what a receiver did not take."""
