package io.acme;

public class DatabaseUserSpec {

  public String database;
}
