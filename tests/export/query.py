#!/usr/bin/env python3
"""Runs the queries of a folder over exported tables and prints their rows as JSON.

usage: query.py (duckdb|spark) (csv|ndjson|parquet) TABLES QUERIES

TABLES is a folder with a file a table, or a partitioned folder a table. One JSON object: by query,
a list of rows.
"""

import decimal
import json
import sys
from pathlib import Path


def plain(value):
    """Sums come as wider numbers than JSON has."""
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


def sources(folder: Path, extension: str) -> dict[str, str]:
    """What each table is read from."""
    found = {path.stem: str(path) for path in folder.glob(f"*.{extension}")}
    found |= {path.name: str(path) for path in folder.iterdir() if path.is_dir()}
    return found


def duckdb_rows(extension: str, folder: Path):
    import duckdb

    connection = duckdb.connect()
    read = {
        "csv": "read_csv('{}', header = true, sample_size = -1, hive_partitioning = {})",
        "ndjson": "read_json('{}', format = 'newline_delimited', sample_size = -1, hive_partitioning = {})",
        "parquet": "read_parquet('{}', hive_partitioning = {})",
    }[extension]
    for table, source in sources(folder, extension).items():
        partitioned = Path(source).is_dir()
        files = f"{source}/**/*.{extension}" if partitioned else source
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {read.format(files, str(partitioned).lower())}")

    def rows(query: str):
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, map(plain, row))) for row in cursor.fetchall()]

    return rows


def spark_rows(extension: str, folder: Path):
    from pyspark.sql import SparkSession

    # Tables of some hundred rows: what takes time is the machine's own warming up, and reading each table anew.
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = session.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    session = session.config("spark.sql.codegen.wholeStage", "false").config("spark.sql.adaptive.enabled", "false")
    session = session.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for table, source in sources(folder, extension).items():
        reader = session.read
        if extension == "csv":
            frame = reader.csv(source, header=True, inferSchema=True, escape='"', multiLine=True)
        else:
            frame = reader.json(source) if extension == "ndjson" else reader.parquet(source)
        frame.cache().createOrReplaceTempView(table)

    def rows(query: str):
        return [{k: plain(v) for k, v in row.asDict().items()} for row in session.sql(query).collect()]

    return rows


def main() -> None:
    engine, extension, tables, queries = sys.argv[1:]
    rows = {"duckdb": duckdb_rows, "spark": spark_rows}[engine](extension, Path(tables))
    answers = {path.stem: rows(path.read_text()) for path in sorted(Path(queries).glob("*.sql"))}
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
